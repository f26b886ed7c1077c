//! Particles as an array of structures and as a structure of arrays.

use gpu_kernels::gallery::layout::{Arguments, FLOATS, PLACE, RUNGS, VELOCITY};

use super::prelude::*;

/// The step length: a number whose products are rounded.
const STEP: f32 = 0.1;

pub(super) fn trials(scale: Scale) -> Vec<Trial> {
    let lens: &[usize] = match scale {
        Scale::Tiny => &[3],
        Scale::Edges => &[1, 31, 257],
        Scale::Count => &[1 << 11],
        Scale::Laptop => &[1 << 16],
        Scale::Gpu => &[1 << 23],
    };
    each(RUNGS, lens, trial)
}

fn trial(rung: &'static Rung<Arguments>, len: usize) -> Trial {
    // As structures, each access touches its own sector, as arrays an eighth of one.
    let (loads, stores) = match rung.name {
        "aos" => (6 * len, 3 * len),
        "aos_vec4" => (2 * len, len),
        _ => (6 * len / 8, 3 * len / 8),
    };
    let work = Work::of_bytes(36 * len).with_flop(6 * len).with_sectors(loads, stores);
    Trial::of_rung(rung, len, format!("{len} particles"), work, move || {
        let particles = Arc::new(numbers(FLOATS * len, 7));
        let is_soa = rung.name == "soa";
        let mut arrays = Arrays::default();
        let changed = arrays.changed("particles", particles.to_vec());
        let arguments = move |p: &Placed| Arguments { particles: p.of(changed), dt: STEP, len: len as u32 };
        let oracle = move |_, i| {
            let (particle, float) = if is_soa { (i % len, i / len) } else { (i / FLOATS, i % FLOATS) };
            let at = |float: usize| {
                let i = if is_soa { float * len + particle } else { FLOATS * particle + float };
                f64::from(particles[i])
            };
            if !(PLACE..PLACE + 3).contains(&float) {
                return Bound::exact(at(float));
            }
            let way = f64::from(STEP) * at(float - PLACE + VELOCITY);
            Sum { value: at(float) + way, magnitude: at(float).abs() + way.abs() }.within(2.0)
        };
        // SAFETY: there are eight floats per particle, and the grid is the kernel's for that many particles.
        unsafe { arrays.launch(rung, (rung.kernel.config)(len), arguments, oracle) }
    })
}
