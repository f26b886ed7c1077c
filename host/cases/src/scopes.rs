//! The kinds of runs, and rows of tables that state them.

use cuda_std::launch::Limits;
use ferrowarp::device::Device;
use ferrowarp::softmax::DeviceProfile;

/// The kind of run, which determines the size of the cases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Tools that run kernels thousands of times slower, such as Miri: the smallest cases that exercise all of every kernel.
    Tiny,
    /// Small enough for thousands of runs: the schedules of many seeds, and the sanitizers.
    Small,
    /// An emulator of the oldest GPU.
    OldEmulator,
    /// An emulator of a newer GPU, which has clusters.
    NewEmulator,
    /// The CPU executor, in `cargo test`.
    Executor,
    /// The self-check of a device.
    Device,
}

/// The setting of a run: the device that kernels are chosen for, and the size of the problems.
#[derive(Clone, Debug)]
pub struct Setting {
    /// The rows of the tables to run.
    pub scope: Scope,
    /// The device that kernels are chosen for.
    pub profile: DeviceProfile,
    /// Maximum rows of one launch of a softmax. A tool may report false errors for clusters of later rows.
    pub most_rows: usize,
}

impl Setting {
    /// For the CPU: kernels for a GPU like an H200, which all run there, or for a small one if there are many runs. The
    /// executor also has the CPU-only kernels; the emulators do not.
    pub fn new(scope: Scope) -> Self {
        let multiprocessors = if matches!(scope, Scope::Tiny | Scope::Small) { 2 } else { 132 };
        let capability = if scope == Scope::OldEmulator { 75 } else { 90 };
        let runs_cpu_only = !matches!(scope, Scope::OldEmulator | Scope::NewEmulator);
        let limits = Limits { runs_cpu_only, ..Limits::of_gpu(capability) };
        Self {
            scope,
            profile: DeviceProfile { limits, multiprocessors, is_cpu: false },
            most_rows: usize::MAX,
        }
    }

    /// Whether matrix multiplication and attention only run the serial kernels and the smallest tiles. A larger tile takes
    /// Miri minutes, whatever the problem's size.
    pub(crate) fn is_serial(&self) -> bool {
        self.scope == Scope::Tiny
    }

    /// For this device.
    pub fn device(device: &Device) -> Self {
        Self { scope: Scope::Device, profile: DeviceProfile::from(device), most_rows: usize::MAX }
    }
}

pub(crate) const TINY: &[Scope] = &[Scope::Tiny];
pub(crate) const SMALL: &[Scope] = &[Scope::Small];
pub(crate) const SMALL_AND_EMULATOR: &[Scope] = &[Scope::Small, Scope::NewEmulator];
pub(crate) const SMALL_AND_EXECUTOR: &[Scope] = &[Scope::Small, Scope::Executor];
pub(crate) const EMULATOR: &[Scope] = &[Scope::NewEmulator];
pub(crate) const EMULATORS: &[Scope] = &[Scope::OldEmulator, Scope::NewEmulator];
pub(crate) const LARGER: &[Scope] = &[Scope::Executor, Scope::Device];
pub(crate) const DEVICE: &[Scope] = &[Scope::Device];

/// `row.name(..)` returns the row with another value of a field.
macro_rules! setters {
    ($row:ident; $($name:ident($($argument:ident: $ty:ty)?): $field:ident = $value:expr;)*) => {
        impl $row {$(
            pub(crate) const fn $name(self, $($argument: $ty)?) -> Self {
                Self { $field: $value, ..self }
            }
        )*}
    };
}
pub(crate) use setters;

/// The cases of an expression for each element type `T`, one after another.
macro_rules! cases_of_types {
    ($($ty:ident),+ => $cases:expr) => {{
        let mut all = Vec::new();
        $({
            type T = $ty;
            all.extend($cases);
        })+
        all
    }};
}
pub(crate) use cases_of_types;
