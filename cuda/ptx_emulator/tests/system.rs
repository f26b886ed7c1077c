//! The functions of the driver: the heap, output and assertions.

use crate::common;
use cuda_std::launch::LaunchConfig;
use ptx_emulator::{Cause, Emulator, EmulatorError, PtxModule};

const DECLARATIONS: &str = "
    .extern .func (.param .b64 block) malloc(.param .b64 bytes);
    .extern .func free(.param .b64 block);
    .extern .func (.param .b32 count) vprintf(.param .b64 format, .param .b64 values);
    .extern .func __assertfail(.param .b64 message, .param .b64 file, .param .b32 line, .param .b64 function,
        .param .b64 char_size);
    .global .align 1 .b8 text[14] = {111, 110, 101, 58, 32, 37, 100, 32, 37, 115, 32, 37, 37, 0};
    .global .align 1 .b8 name[3] = {97, 98, 0};
    .func (.param .b64 block) take(.param .b64 bytes) {
        .reg .b64 %rd<3>;
        ld.param.b64 %rd1, [bytes];
        { .param .b64 p; .param .b64 r; st.param.b64 [p], %rd1; call (r), malloc, (p); ld.param.b64 %rd2, [r]; }
        st.param.b64 [block], %rd2;
        ret;
    }
    .func give(.param .b64 block) {
        .reg .b64 %rd<3>;
        ld.param.b64 %rd1, [block];
        { .param .b64 p; st.param.b64 [p], %rd1; call free, (p); }
        ret;
    }";

/// A block of the bytes `of` in the register `to`.
fn take(to: &str, of: u64) -> String {
    format!(
        "{{ .param .b64 p; .param .b64 r; st.param.b64 [p], {of}; call (r), take, (p); ld.param.b64 {to}, [r]; }}"
    )
}

fn run(body: &str, out: &mut [u64]) -> Result<(), EmulatorError> {
    common::run_module(&common::module(DECLARATIONS, body), LaunchConfig::new(1, 1), out)
}

fn cause(body: &str) -> Cause {
    match run(body, &mut [0]) {
        Err(EmulatorError::Fault(fault)) => fault.cause,
        other => panic!("{other:?} instead of a fault"),
    }
}

#[test]
fn a_block_lives_on_to_the_next_launch() {
    let module = PtxModule::parse(&common::module(
        DECLARATIONS,
        &format!(
            "ld.global.b64 %rd1, [%out]; setp.ne.s64 %p1, %rd1, 0; @%p1 bra again; {}
             st.b64 [%rd1], 3; st.global.b64 [%out], %rd1; ret;
             again: ld.b64 %rd2, [%rd1]; st.global.b64 [%out], %rd2;",
            take("%rd1", 8)
        ),
    ));
    let mut emulator = Emulator::new(module.unwrap());
    let mut out = [0u64];
    let address = out.as_mut_ptr().addr() as u64;
    // SAFETY: `out` outlives the launches, and no other code uses it.
    unsafe {
        emulator.lend(&mut out);
        emulator.launch("k", LaunchConfig::new(1, 1), &[&address.to_le_bytes()]).unwrap();
        emulator.launch("k", LaunchConfig::new(1, 1), &[&address.to_le_bytes()]).unwrap();
    }
    assert_eq!(out, [3]);
}

/// What `vprintf` makes of a format and of values, as `(size, bits)` each.
fn printed(format: &str, values: &[(u64, u64)]) -> String {
    let format: Vec<String> = format.bytes().chain([0]).map(|byte| byte.to_string()).collect();
    let (mut stores, mut at) = (String::new(), 0);
    for &(bytes, bits) in values {
        at = u64::next_multiple_of(at, bytes);
        let bits_of = 8 * bytes;
        stores += &match bits {
            0xdead_beef => format!("mov.b64 %rd3, name; st.local.b{bits_of} [values+{at}], %rd3;"),
            bits => format!("st.local.b{bits_of} [values+{at}], {};", bits as i64),
        };
        at += bytes;
    }
    let declarations =
        format!("{DECLARATIONS} .global .align 1 .b8 format[{}] = {{{}}};", format.len(), format.join(","));
    let body = format!(
        ".local .align 8 .b8 values[64]; {stores}
         mov.b64 %rd1, format; mov.b64 %rd2, values; cvta.local.u64 %rd2, %rd2;
         {{ .param .b64 p; .param .b64 q; .param .b32 r; st.param.b64 [p], %rd1; st.param.b64 [q], %rd2;
         call (r), vprintf, (p, q); ld.param.b32 %r1, [r]; }} st.global.b32 [%out], %r1;"
    );
    let module = PtxModule::parse(&common::module(&declarations, &body)).unwrap();
    let mut emulator = Emulator::new(module).with_captured_output();
    let mut out = [77u32];
    let address = out.as_mut_ptr().addr() as u64;
    // SAFETY: `out` outlives the launch, and no other code uses it.
    unsafe {
        emulator.lend(&mut out);
        emulator
            .launch("k", LaunchConfig::new(1, 1), &[&address.to_le_bytes()])
            .unwrap_or_else(|error| panic!("{format:?}: {error}"));
    }
    assert_eq!(out[0] as usize, values.len(), "the number of values is what it returns");
    String::from_utf8(emulator.take_output()).unwrap()
}

#[test]
fn formats_are_those_of_c() {
    let name = (8, 0xdead_beef);
    let int = |value: i32| (4, u64::from(value as u32));
    let long = |value: i64| (8, value as u64);
    let double = |value: f64| (8, value.to_bits());
    for (format, values, expected) in [
        ("plain 100 %%\n", &[][..], "plain 100 %\n"),
        (
            "%d|%5d|%-5d|%05d|%+d|% d",
            &[int(-3), int(42), int(42), int(-42), int(7), int(7)],
            "-3|   42|42   |-0042|+7| 7",
        ),
        (
            "%u %x %X %#x %o %#o",
            &[int(-1), int(255), int(255), int(255), int(8), int(8)],
            "4294967295 ff FF 0xff 10 010",
        ),
        (
            "%ld %lld %hhd %hd %lu",
            &[long(-5), long(i64::MIN), int(200), int(40000), long(-1)],
            "-5 -9223372036854775808 -56 -25536 18446744073709551615",
        ),
        ("%.3d|%8.3d|%.0d|", &[int(5), int(5), int(0)], "005|     005||"),
        ("%s|%5s|%-5s|%.1s|%c", &[name, name, name, name, int(65)], "ab|   ab|ab   |a|A"),
        ("%*d|%-*d|", &[int(4), int(7), int(4), int(7)], "   7|7   |"),
        (
            "%f %.2f %.0f %10.3f|%-10.3f|%010.3f",
            &[double(1.5), double(2.675), double(2.5), double(-3.2515), double(3.2515), double(-3.2515)],
            "1.500000 2.67 2     -3.252|3.252     |-00003.252",
        ),
        ("%e %.1E %.0e", &[double(12345.678), double(0.00012), double(5e10)], "1.234568e+04 1.2E-04 5e+10"),
        (
            "%g %g %g %g %.3g %g",
            &[double(100000.0), double(1e6), double(0.0001), double(0.00001), double(1234.5), double(0.0)],
            "100000 1e+06 0.0001 1e-05 1.23e+03 0",
        ),
        (
            "%f %F %5.1f|%g",
            &[double(f64::INFINITY), double(f64::NEG_INFINITY), double(f64::NAN), double(-0.0)],
            "inf -INF   nan|-0",
        ),
        ("%p", &[(8, 0x1234)], "0x1234"),
    ] {
        assert_eq!(printed(format, values), expected, "{format}");
    }
}

#[test]
fn a_format_that_is_not_known_is_refused() {
    let print = |format: &str| {
        let bytes: Vec<String> = format.bytes().chain([0]).map(|byte| byte.to_string()).collect();
        let declarations =
            format!("{DECLARATIONS} .global .b8 format[{}] = {{{}}};", bytes.len(), bytes.join(","));
        let body =
            "mov.b64 %rd1, format; { .param .b64 p; .param .b64 q; .param .b32 r; st.param.b64 [p], %rd1;
            st.param.b64 [q], %rd1; call (r), vprintf, (p, q); }";
        match common::run_module(&common::module(&declarations, body), LaunchConfig::new(1, 1), &mut [0u64]) {
            Err(EmulatorError::Fault(fault)) => fault.cause.to_string(),
            other => panic!("{other:?} instead of a fault"),
        }
    };
    assert_eq!(print("%n"), "not emulated: `vprintf` with the format \"%n\"");
    assert_eq!(print("50 %"), "not emulated: `vprintf` with the format \"50 %\"");
}

#[test]
fn a_failed_assertion_is_a_fault_with_its_texts() {
    let cause = cause(
        "mov.b64 %rd1, text; mov.b64 %rd2, name;
         { .param .b64 p; .param .b64 q; .param .b32 r; .param .b64 s; .param .b64 t; st.param.b64 [p], %rd1;
         st.param.b64 [q], %rd2; st.param.b32 [r], 12; st.param.b64 [s], %rd2; st.param.b64 [t], 1;
         call __assertfail, (p, q, r, s, t); }",
    );
    assert_eq!(cause.to_string(), "assertion `one: %d %s %%` failed at ab:12 in ab");
}
