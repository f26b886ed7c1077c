//! time: dates and durations.

use ::time::{Date, Duration, Month, OffsetDateTime, UtcOffset};

use super::out::{Out, array};

pub fn dates(input: &[u8], number: u32, output: &mut [u8]) {
    let mut out = Out::new(output);
    let seconds = i64::from_le_bytes(array(input, 0)) >> (number % 48);
    match OffsetDateTime::from_unix_timestamp(seconds) {
        Ok(moment) => {
            let offset = UtcOffset::from_hms((number % 40) as i8 - 20, 30, 0).unwrap_or(UtcOffset::UTC);
            let there = moment.checked_to_offset(offset).unwrap_or(moment);
            let date = there.date();
            out.number(date.year() as u64);
            out.bytes(&[u8::from(date.month()), date.day(), date.weekday().number_from_monday(), date.iso_week()]);
            out.number(date.to_julian_day() as u64);
            out.bytes(&[there.hour(), there.minute(), there.second()]);
            let later = there.checked_add(Duration::new(i64::from(input[9]) << 20, -5));
            out.number(later.map_or(0, |later| later.unix_timestamp_nanos() as u64));
        }
        Err(_) => out.bytes(b"out of range"),
    }
    let (year, ordinal) = (i32::from(i16::from_le_bytes(array(input, 10))) / 4, u16::from(input[12]) * 2);
    match Date::from_ordinal_date(year, ordinal) {
        Ok(date) => {
            let (year, month, day) = date.to_calendar_date();
            out.number(year as u64 ^ (month as u64) << 40);
            out.bytes(&[day, date.sunday_based_week()]);
            let next = date.replace_month(Month::February).is_ok();
            out.bytes(&[u8::from(next), ::time::util::is_leap_year(year).into()]);
        }
        Err(_) => out.bytes(b"no date"),
    }
}
