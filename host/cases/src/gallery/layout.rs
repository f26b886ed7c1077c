//! Particles as an array of structures and as a structure of arrays.

use std::sync::Arc;

use gpu_kernels::gallery::Rung;
use gpu_kernels::gallery::layout::{Arguments, FLOATS, PLACE, RUNGS, VELOCITY};

use super::{Arrays, Axis, Lesson, Measure, Prediction, Problem, Scale, Trial, Work, numbers};
use crate::compare::Bound;
use crate::reference::Sum;

pub(super) const LESSON: Lesson = Lesson {
    name: "layout",
    title: "Structures of arrays",
    axis: Axis { label: "particles", is_log: true },
    measure: Measure::Bytes,
    rungs: || RUNGS.iter().map(|rung| (rung.name, rung.idea)).collect(),
    trials,
    predictions,
};

/// The step length: a number whose products are rounded.
const STEP: f32 = 0.1;

fn predictions() -> Vec<Prediction> {
    vec![
        Prediction::time_over("aos", "aos_vec4", 1.0).from("the same 64 bytes per particle").why(
            "L1 serves the repeated accesses to a sector, but each of the nine requests still looks up 32 sectors. The three \
             requests of `aos_vec4` need a third of that.",
        ),
        Prediction::time_over("aos_vec4", "soa", 64.0 / 36.0).from("64 bytes for 36").why(
            "Both wait mostly for memory. `soa` has nine streams of 4 bytes per thread, which use memory a little less well than \
             accesses of 16 bytes.",
        ),
        Prediction::share_of_copy("soa", 1.0)
            .from("36 useful bytes, and no others")
            .why("Accesses of 4 bytes keep fewer bytes in flight than the vector copy."),
    ]
}

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
    // Sectors per particle: as structures, each access touches its own sector, as arrays an eighth of one.
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
                // SAFETY: there are eight floats per particle, and the grid is the kernel's for that many particles.
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
