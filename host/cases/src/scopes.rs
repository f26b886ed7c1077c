//! Rows of tables: the scopes in which they run, and functions that set a field.

use crate::Scope;

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
