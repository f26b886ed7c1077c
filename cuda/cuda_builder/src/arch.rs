//! The architectures that libNVVM compiles for.

use std::fmt;
use std::str::FromStr;

use crate::error::CudaBuilderError;

/// The features that PTX may use beyond the base architecture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Variant {
    Base,
    Family,
    Architecture,
}

macro_rules! architectures {
    ($($name:ident = $number:literal $variant:ident $suffix:literal $ptx:literal,)*) => {
        /// A virtual architecture, `compute_XX`.
        ///
        /// A module for a base architecture (no letter) runs on all later GPUs, `f` on later GPUs of the same family, `a`
        /// only on this GPU.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum NvvmArch {
            $(
                #[doc = concat!("`compute_", $number, $suffix, "`")]
                $name,
            )*
        }

        impl NvvmArch {
            /// All architectures, in ascending order.
            pub const ALL: &'static [NvvmArch] = &[$(NvvmArch::$name),*];

            fn row(self) -> (u32, Variant, &'static str, u32) {
                match self {
                    $(NvvmArch::$name => ($number, Variant::$variant, $suffix, $ptx),)*
                }
            }
        }
    };
}

// The last column is the lowest PTX version that supports the architecture, and at least 8.6, libNVVM's lowest (PTX ISA,
// release notes; `tests/archs.rs` compiles each). `#[kernel]` of `cuda_std_macros` lists the numbers too.
architectures! {
    Compute75 = 75 Base "" 86,
    Compute80 = 80 Base "" 86,
    Compute86 = 86 Base "" 86,
    Compute87 = 87 Base "" 86,
    Compute88 = 88 Base "" 90,
    Compute89 = 89 Base "" 86,
    Compute90 = 90 Base "" 86,
    Compute90a = 90 Architecture "a" 86,
    Compute100 = 100 Base "" 86,
    Compute100f = 100 Family "f" 88,
    Compute100a = 100 Architecture "a" 86,
    Compute103 = 103 Base "" 88,
    Compute103f = 103 Family "f" 88,
    Compute103a = 103 Architecture "a" 88,
    Compute110 = 110 Base "" 90,
    Compute110f = 110 Family "f" 90,
    Compute110a = 110 Architecture "a" 90,
    Compute120 = 120 Base "" 87,
    Compute120f = 120 Family "f" 88,
    Compute120a = 120 Architecture "a" 87,
    Compute121 = 121 Base "" 88,
    Compute121f = 121 Family "f" 88,
    Compute121a = 121 Architecture "a" 88,
}

impl NvvmArch {
    /// The capability as one number: 90 for `compute_90a`.
    pub fn capability_value(self) -> u32 {
        self.row().0
    }

    /// The major version: 9 for `compute_90`.
    pub fn major_version(self) -> u32 {
        self.capability_value() / 10
    }

    /// The minor version: 6 for `compute_86`.
    pub fn minor_version(self) -> u32 {
        self.capability_value() % 10
    }

    /// The name for libNVVM's `-arch`: `compute_90`.
    pub fn target_feature(self) -> String {
        self.to_string()
    }

    /// The names for which `cfg(target_feature = "..")` holds in a kernel compiled for it. They include all base
    /// architectures up to its capability, even those that libNVVM no longer supports: `compute_50` to `compute_90`.
    pub fn all_target_features(self) -> Vec<String> {
        const OLDER: [u32; 9] = [50, 52, 53, 60, 61, 62, 70, 72, 73];
        let capability = self.capability_value();
        let older = OLDER.iter().map(|number| format!("compute_{number}"));
        let includes = |arch: &&NvvmArch| match arch.row().1 {
            Variant::Base => arch.capability_value() <= capability,
            Variant::Family => {
                !self.is_base_variant()
                    && arch.major_version() == self.major_version()
                    && arch.capability_value() <= capability
            }
            Variant::Architecture => **arch == self,
        };
        older.chain(NvvmArch::ALL.iter().filter(includes).map(NvvmArch::to_string)).collect()
    }

    /// The real architecture, for `-arch` of ptxas and `-Ctarget-cpu` of rustc: `sm_90`.
    pub fn processor(self) -> String {
        let (number, _, suffix, _) = self.row();
        format!("sm_{number}{suffix}")
    }

    /// The last path segment of kernels that are only for this architecture: `only_90a`.
    pub(crate) fn only_segment(self) -> String {
        self.to_string().replace("compute_", "only_")
    }

    /// Whether a module for it runs on all later GPUs.
    pub fn is_base_variant(self) -> bool {
        self.row().1 == Variant::Base
    }

    /// Whether a module for it only runs on later GPUs of its family.
    pub fn is_family_variant(self) -> bool {
        self.row().1 == Variant::Family
    }

    /// Whether a module for it only runs on this GPU.
    pub fn is_architecture_variant(self) -> bool {
        self.row().1 == Variant::Architecture
    }

    /// The same capability without a letter.
    pub fn base_architecture(self) -> NvvmArch {
        let same =
            |arch: &&NvvmArch| arch.is_base_variant() && arch.capability_value() == self.capability_value();
        NvvmArch::ALL.iter().find(same).copied().unwrap_or(self)
    }

    /// The same capability with the letter `a`: `compute_90a` for `compute_90`. `None` for the oldest ones.
    pub fn architecture_variant(self) -> Option<NvvmArch> {
        self.get_variants().into_iter().find(|arch| arch.is_architecture_variant())
    }

    /// All architectures of the same capability: 100, 100f and 100a.
    pub fn get_variants(self) -> Vec<NvvmArch> {
        NvvmArch::variants_for_capability(self.capability_value())
    }

    /// All architectures of a compute capability, such as 100. The list is empty if the capability is unknown.
    pub fn variants_for_capability(capability: u32) -> Vec<NvvmArch> {
        NvvmArch::ALL.iter().copied().filter(|arch| arch.capability_value() == capability).collect()
    }

    /// The newest architecture with code that runs on this machine's first GPU, as reported by its driver.
    ///
    /// # Errors
    /// There is no driver or no GPU, or the GPU is older than all architectures.
    pub fn native() -> Result<NvvmArch, CudaBuilderError> {
        let capability = crate::native::capability().map_err(CudaBuilderError::Native)?;
        let runs = |arch: &&NvvmArch| arch.is_base_variant() && arch.capability_value() <= capability;
        let (major, minor) = (capability / 10, capability % 10);
        NvvmArch::ALL.iter().rfind(runs).copied().ok_or_else(|| {
            let reason = format!("its compute capability is {major}.{minor}, and 7.5 is the least");
            CudaBuilderError::Native(reason)
        })
    }

    /// The lowest PTX version that libNVVM writes for it, 86 for 8.6. The builder lowers it to what the instructions need.
    pub fn ptx_version(self) -> u32 {
        self.row().3
    }

    /// The first PTX version with this architecture (PTX ISA, release notes).
    pub(crate) fn oldest_ptx_version(self) -> u32 {
        match self {
            NvvmArch::Compute75 => 63,
            NvvmArch::Compute80 => 70,
            NvvmArch::Compute86 => 71,
            NvvmArch::Compute87 => 74,
            NvvmArch::Compute89 | NvvmArch::Compute90 => 78,
            NvvmArch::Compute90a => 80,
            _ => self.ptx_version(),
        }
    }
}

impl Default for NvvmArch {
    /// `compute_75`, the oldest: its code runs on every supported GPU.
    fn default() -> NvvmArch {
        NvvmArch::Compute75
    }
}

impl fmt::Display for NvvmArch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (number, _, suffix, _) = self.row();
        write!(f, "compute_{number}{suffix}")
    }
}

impl FromStr for NvvmArch {
    type Err = CudaBuilderError;

    /// Accepts `compute_90`, `sm_90` and `90`.
    fn from_str(name: &str) -> Result<NvvmArch, CudaBuilderError> {
        let short = name.strip_prefix("compute_").or_else(|| name.strip_prefix("sm_")).unwrap_or(name);
        let named = |arch: &&NvvmArch| arch.to_string().strip_prefix("compute_") == Some(short);
        let found = NvvmArch::ALL.iter().find(named).copied();
        found.ok_or_else(|| CudaBuilderError::UnknownArch(name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_go_both_ways() {
        for arch in NvvmArch::ALL {
            assert_eq!(arch.to_string().parse::<NvvmArch>().unwrap(), *arch);
            assert_eq!(arch.processor().parse::<NvvmArch>().unwrap(), *arch);
        }
        assert!("compute_70".parse::<NvvmArch>().is_err());
        assert!("compute_".parse::<NvvmArch>().is_err());
    }

    #[test]
    fn features_of_earlier_architectures_hold_too() {
        let features = |arch: NvvmArch| arch.all_target_features();
        let of_90 = features(NvvmArch::Compute90);
        assert_eq!((of_90[0].as_str(), of_90.last().unwrap().as_str()), ("compute_50", "compute_90"));
        assert!(of_90.contains(&"compute_75".to_owned()) && !of_90.contains(&"compute_100".to_owned()));
        let of_90a = features(NvvmArch::Compute90a);
        assert_eq!((&of_90a[..of_90.len()], of_90a[of_90.len()].as_str()), (&of_90[..], "compute_90a"));
        let of_103a = features(NvvmArch::Compute103a);
        let has = |name: &str| of_103a.contains(&name.to_owned());
        assert!(has("compute_100f") && has("compute_103f") && has("compute_103a"));
        assert!(!has("compute_100a") && !has("compute_90a") && !has("compute_110"));
    }

    #[test]
    fn capabilities() {
        let arch = NvvmArch::Compute103a;
        assert_eq!((arch.major_version(), arch.minor_version()), (10, 3));
        assert_eq!(arch.base_architecture(), NvvmArch::Compute103);
        assert!(arch.is_architecture_variant() && !arch.is_base_variant());
        assert_eq!(NvvmArch::Compute90.architecture_variant(), Some(NvvmArch::Compute90a));
        assert_eq!(NvvmArch::Compute100f.architecture_variant(), Some(NvvmArch::Compute100a));
        assert_eq!(NvvmArch::Compute80.architecture_variant(), None);
    }
}
