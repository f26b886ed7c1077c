//! One function per atomic instruction and fence, with ordering and scope in the name.
//!
//! `atomic_fetch_add_relaxed_f32_device` is `atom.relaxed.gpu.add.f32`: the operation, the ordering (`relaxed`,
//! `acquire`, `release`, `acqrel`; `volatile` is an `atom` without a qualifier, which is relaxed), the type, the scope
//! (`block` is `.cta`, `device` is `.gpu`, `system` is `.sys`). The instructions use generic addresses, so a pointer may
//! lead to global or shared memory. On the host every scope is the system.
//!
//! # Safety of every function with a pointer
//! - The pointer is valid for reads and writes and aligned to its type.
//! - No non-atomic access and no atomic access by a thread outside the scope races with it (PTX ISA, "morally
//!   strong operations").

#[cfg(not(target_arch = "nvptx64"))]
use super::host::Cell as _;
#[cfg(not(target_arch = "nvptx64"))]
use crate::simt::atomic_scopes;
#[cfg(target_arch = "nvptx64")]
use core::arch::asm;
#[cfg(not(target_arch = "nvptx64"))]
use core::sync::atomic::Ordering;
use pastey::paste;

macro_rules! fences {
    ($($name:ident = $ptx:literal, $ordering:ident;)*) => {$(
        #[doc = concat!("`", $ptx, "`: orders this thread's memory accesses before and after.")]
        ///
        /// # Safety
        /// No precondition; unsafe like all functions of this module.
        #[doc(alias = $ptx)]
        #[inline(always)]
        pub unsafe fn $name() {
            #[cfg(target_arch = "nvptx64")]
            // SAFETY: a fence has no precondition. It orders memory, so neither `nomem` nor `readonly`.
            unsafe {
                asm!(concat!($ptx, ";"), options(nostack, preserves_flags));
            }
            #[cfg(not(target_arch = "nvptx64"))]
            core::sync::atomic::fence(Ordering::$ordering);
        }
    )*};
}

fences! {
    membar_block = "membar.cta", SeqCst;
    membar_device = "membar.gl", SeqCst;
    membar_system = "membar.sys", SeqCst;
    fence_sc_block = "fence.sc.cta", SeqCst;
    fence_sc_device = "fence.sc.gpu", SeqCst;
    fence_sc_system = "fence.sc.sys", SeqCst;
    fence_acqrel_block = "fence.acq_rel.cta", AcqRel;
    fence_acqrel_device = "fence.acq_rel.gpu", AcqRel;
    fence_acqrel_system = "fence.acq_rel.sys", AcqRel;
}

macro_rules! loads_and_stores {
    ($($scope:ident { $($ty:ident $width:literal $reg:ident, $relaxed_load:literal, $acquire_load:literal,
        $volatile_load:literal, $relaxed_store:literal, $release_store:literal, $volatile_store:literal;)* })*) => {$($(
        loads_and_stores! { @load $scope $ty $width $reg
            relaxed $relaxed_load Relaxed, acquire $acquire_load Acquire, volatile $volatile_load Relaxed }
        loads_and_stores! { @store $scope $ty $width $reg
            relaxed $relaxed_store Relaxed, release $release_store Release, volatile $volatile_store Relaxed }
    )*)*};
    (@load $scope:ident $ty:ident $width:literal $reg:ident $($order:ident $ptx:literal $ordering:ident),*) => {paste!{$(
        #[doc = concat!("`", $ptx, "`.")]
        ///
        /// # Safety
        /// See [the module](self#safety-of-every-function-with-a-pointer).
        #[doc(alias = $ptx)]
        #[inline(always)]
        pub unsafe fn [<atomic_load_ $order _ $width _ $scope>](ptr: *const $ty) -> $ty {
            #[cfg(target_arch = "nvptx64")]
            // SAFETY: the caller guarantees a valid pointer. The load may synchronise, so it orders other accesses.
            unsafe {
                let value;
                asm!(concat!($ptx, " {}, [{}];"), out($reg) value, in(reg64) ptr, options(nostack, preserves_flags));
                value
            }
            #[cfg(not(target_arch = "nvptx64"))]
            // SAFETY: the caller guarantees a valid pointer.
            unsafe {
                $ty::load(ptr.cast_mut(), Ordering::$ordering)
            }
        }
    )*}};
    (@store $scope:ident $ty:ident $width:literal $reg:ident $($order:ident $ptx:literal $ordering:ident),*) => {paste!{$(
        #[doc = concat!("`", $ptx, "`.")]
        ///
        /// # Safety
        /// See [the module](self#safety-of-every-function-with-a-pointer).
        #[doc(alias = $ptx)]
        #[inline(always)]
        pub unsafe fn [<atomic_store_ $order _ $width _ $scope>](ptr: *mut $ty, value: $ty) {
            #[cfg(target_arch = "nvptx64")]
            // SAFETY: the caller guarantees a valid pointer. The store may synchronise, so it orders other accesses.
            unsafe {
                asm!(concat!($ptx, " [{}], {};"), in(reg64) ptr, in($reg) value, options(nostack, preserves_flags));
            }
            #[cfg(not(target_arch = "nvptx64"))]
            // SAFETY: the caller guarantees a valid pointer.
            unsafe {
                atomic_scopes::[<note_ $scope>](ptr.addr());
                $ty::store(ptr, value, Ordering::$ordering);
            }
        }
    )*}};
}

loads_and_stores! {
    block {
        u32 32 reg32, "ld.relaxed.cta.u32", "ld.acquire.cta.u32", "ld.volatile.u32",
            "st.relaxed.cta.u32", "st.release.cta.u32", "st.volatile.u32";
        u64 64 reg64, "ld.relaxed.cta.u64", "ld.acquire.cta.u64", "ld.volatile.u64",
            "st.relaxed.cta.u64", "st.release.cta.u64", "st.volatile.u64";
    }
    device {
        u32 32 reg32, "ld.relaxed.gpu.u32", "ld.acquire.gpu.u32", "ld.volatile.u32",
            "st.relaxed.gpu.u32", "st.release.gpu.u32", "st.volatile.u32";
        u64 64 reg64, "ld.relaxed.gpu.u64", "ld.acquire.gpu.u64", "ld.volatile.u64",
            "st.relaxed.gpu.u64", "st.release.gpu.u64", "st.volatile.u64";
    }
    system {
        u32 32 reg32, "ld.relaxed.sys.u32", "ld.acquire.sys.u32", "ld.volatile.u32",
            "st.relaxed.sys.u32", "st.release.sys.u32", "st.volatile.u32";
        u64 64 reg64, "ld.relaxed.sys.u64", "ld.acquire.sys.u64", "ld.volatile.u64",
            "st.relaxed.sys.u64", "st.release.sys.u64", "st.volatile.u64";
    }
}

/// Expands one operation for three scopes and five orderings.
macro_rules! fetches {
    ($($op:ident $ty:ident $reg:ident $ptx:literal |$old:ident, $value:ident| $new:expr;)*) => {$(
        fetches! { @atomic_scopes $op $ty $reg $ptx |$old, $value| $new;
            relaxed "atom.relaxed." Relaxed, acquire "atom.acquire." Acquire,
            release "atom.release." Release, acqrel "atom.acq_rel." AcqRel, volatile "atom." Relaxed }
    )*};
    (@atomic_scopes $op:ident $ty:ident $reg:ident $ptx:literal |$old:ident, $value:ident| $new:expr;
        $($order:ident $prefix:literal $ordering:ident),*) => {$(
        fetches! { @one block "cta." $op $ty $reg $ptx |$old, $value| $new; $order $prefix $ordering }
        fetches! { @one device "gpu." $op $ty $reg $ptx |$old, $value| $new; $order $prefix $ordering }
        fetches! { @one system "sys." $op $ty $reg $ptx |$old, $value| $new; $order $prefix $ordering }
    )*};
    (@one $scope:ident $infix:literal $op:ident $ty:ident $reg:ident $ptx:literal |$old:ident, $value:ident| $new:expr;
        $order:ident $prefix:literal $ordering:ident) => {paste!{
        #[doc = concat!("`", $prefix, $infix, $ptx, "`: returns the value before.")]
        ///
        /// # Safety
        /// See [the module](self#safety-of-every-function-with-a-pointer).
        #[inline(always)]
        pub unsafe fn [<atomic_fetch_ $op _ $order _ $ty _ $scope>](ptr: *mut $ty, $value: $ty) -> $ty {
            #[cfg(target_arch = "nvptx64")]
            // SAFETY: the caller guarantees a valid pointer.
            unsafe {
                let old;
                asm!(
                    concat!($prefix, $infix, $ptx, " {}, [{}], {};"),
                    out($reg) old, in(reg64) ptr, in($reg) $value,
                    options(nostack, preserves_flags),
                );
                old
            }
            #[cfg(not(target_arch = "nvptx64"))]
            // SAFETY: the caller guarantees a valid pointer.
            unsafe {
                atomic_scopes::[<note_ $scope>](ptr.addr());
                $ty::update(ptr, Ordering::$ordering, |$old| $new)
            }
        }
    }};
}

fetches! {
    add u32 reg32 "add.u32" |old, value| old.wrapping_add(value);
    add i32 reg32 "add.s32" |old, value| old.wrapping_add(value);
    add u64 reg64 "add.u64" |old, value| old.wrapping_add(value);
    add i64 reg64 "add.u64" |old, value| old.wrapping_add(value);
    add f32 reg32 "add.f32" |old, value| old + value;
    add f64 reg64 "add.f64" |old, value| old + value;
    and u32 reg32 "and.b32" |old, value| old & value;
    and i32 reg32 "and.b32" |old, value| old & value;
    and u64 reg64 "and.b64" |old, value| old & value;
    and i64 reg64 "and.b64" |old, value| old & value;
    and f32 reg32 "and.b32" |old, value| f32::from_bits(old.to_bits() & value.to_bits());
    and f64 reg64 "and.b64" |old, value| f64::from_bits(old.to_bits() & value.to_bits());
    or u32 reg32 "or.b32" |old, value| old | value;
    or i32 reg32 "or.b32" |old, value| old | value;
    or u64 reg64 "or.b64" |old, value| old | value;
    or i64 reg64 "or.b64" |old, value| old | value;
    or f32 reg32 "or.b32" |old, value| f32::from_bits(old.to_bits() | value.to_bits());
    or f64 reg64 "or.b64" |old, value| f64::from_bits(old.to_bits() | value.to_bits());
    xor u32 reg32 "xor.b32" |old, value| old ^ value;
    xor i32 reg32 "xor.b32" |old, value| old ^ value;
    xor u64 reg64 "xor.b64" |old, value| old ^ value;
    xor i64 reg64 "xor.b64" |old, value| old ^ value;
    xor f32 reg32 "xor.b32" |old, value| f32::from_bits(old.to_bits() ^ value.to_bits());
    xor f64 reg64 "xor.b64" |old, value| f64::from_bits(old.to_bits() ^ value.to_bits());
    min u32 reg32 "min.u32" |old, value| old.min(value);
    min i32 reg32 "min.s32" |old, value| old.min(value);
    min u64 reg64 "min.u64" |old, value| old.min(value);
    min i64 reg64 "min.s64" |old, value| old.min(value);
    max u32 reg32 "max.u32" |old, value| old.max(value);
    max i32 reg32 "max.s32" |old, value| old.max(value);
    max u64 reg64 "max.u64" |old, value| old.max(value);
    max i64 reg64 "max.s64" |old, value| old.max(value);
    exch u32 reg32 "exch.b32" |_old, value| value;
    exch i32 reg32 "exch.b32" |_old, value| value;
    exch u64 reg64 "exch.b64" |_old, value| value;
    exch i64 reg64 "exch.b64" |_old, value| value;
    exch f32 reg32 "exch.b32" |_old, value| value;
    exch f64 reg64 "exch.b64" |_old, value| value;
    inc u32 reg32 "inc.u32" |old, value| if old >= value { 0 } else { old + 1 };
    dec u32 reg32 "dec.u32" |old, value| if old == 0 || old > value { value } else { old - 1 };
}

/// Expands subtractions for three scopes and five orderings. PTX has no instruction for them, so they add the negated value.
macro_rules! subtractions {
    ($($ty:ident |$value:ident| $negated:expr;)*) => {$(
        subtractions! { @orders block $ty |$value| $negated }
        subtractions! { @orders device $ty |$value| $negated }
        subtractions! { @orders system $ty |$value| $negated }
    )*};
    (@orders $scope:ident $ty:ident |$value:ident| $negated:expr) => {
        subtractions! { @one $scope $ty |$value| $negated; relaxed acquire release acqrel volatile }
    };
    (@one $scope:ident $ty:ident |$value:ident| $negated:expr; $($order:ident)*) => {paste!{$(
        #[doc = concat!("[`atomic_fetch_add_", stringify!($order), "_", stringify!($ty), "_", stringify!($scope), "`] of the negated value.")]
        ///
        /// # Safety
        /// See [the module](self#safety-of-every-function-with-a-pointer).
        #[inline(always)]
        pub unsafe fn [<atomic_fetch_sub_ $order _ $ty _ $scope>](ptr: *mut $ty, $value: $ty) -> $ty {
            // SAFETY: the caller guarantees a valid pointer.
            unsafe { [<atomic_fetch_add_ $order _ $ty _ $scope>](ptr, $negated) }
        }
    )*}};
}

subtractions! {
    u32 |value| value.wrapping_neg();
    i32 |value| value.wrapping_neg();
    u64 |value| value.wrapping_neg();
    i64 |value| value.wrapping_neg();
    f32 |value| -value;
    f64 |value| -value;
}

/// Expands the compare-and-swap of one type for three scopes and five orderings.
macro_rules! swaps {
    ($($ty:ident $reg:ident $ptx:literal;)*) => {$(
        swaps! { @orders block "cta." $ty $reg $ptx }
        swaps! { @orders device "gpu." $ty $reg $ptx }
        swaps! { @orders system "sys." $ty $reg $ptx }
    )*};
    (@orders $scope:ident $infix:literal $ty:ident $reg:ident $ptx:literal) => {
        swaps! { @one $scope $infix $ty $reg $ptx relaxed "atom.relaxed." Relaxed }
        swaps! { @one $scope $infix $ty $reg $ptx acquire "atom.acquire." Acquire }
        swaps! { @one $scope $infix $ty $reg $ptx release "atom.release." Release }
        swaps! { @one $scope $infix $ty $reg $ptx acqrel "atom.acq_rel." AcqRel }
        swaps! { @one $scope $infix $ty $reg $ptx volatile "atom." Relaxed }
    };
    (@one $scope:ident $infix:literal $ty:ident $reg:ident $ptx:literal
        $order:ident $prefix:literal $ordering:ident) => {paste!{
        #[doc = concat!("`", $prefix, $infix, $ptx, "`: writes `new` if the bits are those of `current`; returns the value before.")]
        ///
        /// # Safety
        /// See [the module](self#safety-of-every-function-with-a-pointer).
        #[inline(always)]
        pub unsafe fn [<atomic_fetch_cas_ $order _ $ty _ $scope>](ptr: *mut $ty, current: $ty, new: $ty) -> $ty {
            #[cfg(target_arch = "nvptx64")]
            // SAFETY: the caller guarantees a valid pointer.
            unsafe {
                let old;
                asm!(
                    concat!($prefix, $infix, $ptx, " {}, [{}], {}, {};"),
                    out($reg) old, in(reg64) ptr, in($reg) current, in($reg) new,
                    options(nostack, preserves_flags),
                );
                old
            }
            #[cfg(not(target_arch = "nvptx64"))]
            // SAFETY: the caller guarantees a valid pointer.
            unsafe {
                atomic_scopes::[<note_ $scope>](ptr.addr());
                $ty::compare_and_swap(ptr, current, new, Ordering::$ordering)
            }
        }
    }};
}

swaps! {
    u32 reg32 "cas.b32";
    i32 reg32 "cas.b32";
    f32 reg32 "cas.b32";
    u64 reg64 "cas.b64";
    i64 reg64 "cas.b64";
    f64 reg64 "cas.b64";
}
