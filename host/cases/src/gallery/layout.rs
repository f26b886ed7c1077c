//! Particles as an array of structures and as a structure of arrays.

use std::sync::Arc;

use gpu_kernels::gallery::Rung;
use gpu_kernels::gallery::layout::{Arguments, FLOATS, PLACE, RUNGS, VELOCITY};

use super::{Arrays, Axis, Lesson, Measure, Problem, Scale, Trial, Work, numbers};
use crate::compare::Bound;
use crate::reference::Sum;

pub(super) const LESSON: Lesson = Lesson {
    name: "layout",
    title: "Structures of arrays",
    axis: Axis { label: "particles", is_log: true },
    measure: Measure::Bytes,
    rungs: || RUNGS.iter().map(|rung| (rung.name, rung.idea)).collect(),
    trials,
};

/// How long a step is: a number whose products round.
const STEP: f32 = 0.1;

fn trials(scale: Scale) -> Vec<Trial> {
    let lens: &[usize] = match scale {
        Scale::Tiny => &[3],
        Scale::Edges => &[1, 31, 257],
        Scale::Count => &[1 << 11],
        Scale::Laptop => &[1 << 16],
        Scale::Gpu => &[1 << 23],
    };
    RUNGS.iter().flat_map(|rung| lens.iter().map(move |&len| trial(rung, len))).collect()
}

fn trial(rung: &'static Rung<Arguments>, len: usize) -> Trial {
    // Of a particle: as structures each access touches its one sector, as arrays an eighth of one.
    let (loads, stores) = match rung.name {
        "aos" => (6.0, 3.0),
        "aos_vec4" => (2.0, 1.0),
        _ => (6.0 / 8.0, 3.0 / 8.0),
    };
    let work = Work::of_bytes(36.0 * len as f64)
        .with_flop(6.0 * len as f64)
        .with_sectors(loads * len as f64, stores * len as f64);
    let name = (rung.name, vec![rung.kernel.meta.name]);
    Trial::new(name, len as f64, format!("{len} particles"), work, move || {
        let particles = Arc::new(numbers(FLOATS * len, 7));
        let is_soa = rung.name == "soa";
        let mut arrays = Arrays::default();
        let changed = arrays.changed("particles", Arc::clone(&particles));
        Problem::new(
            arrays,
            move |on, placed| {
                let arguments = Arguments { particles: placed.of(changed), dt: STEP, len: len as u32 };
                // SAFETY: eight floats a particle, and the grid is the kernel's for as many particles.
                unsafe { (rung.kernel.launch)(on, (rung.kernel.config)(len), arguments) }
            },
            move |_, i| {
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
            },
        )
    })
}
