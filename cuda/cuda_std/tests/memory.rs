//! Vector loads and stores, pointers and counters on the host.

use cuda_std::mem::{self, CachePolicy, f32x2, f32x4, u32x2, u32x4};
use cuda_std::ptr::{self, AddressSpace};
use cuda_std::{FloatExt, GpuFloat, fastmath, misc};

#[test]
fn every_load_and_store_copies() {
    let source = [f32x4::new(1.0, -2.0, 3.5, f32::NAN), f32x4::splat(7.0)];
    let loads: [unsafe fn(*const f32x4) -> f32x4; 12] = [
        mem::load,
        mem::load_shared,
        mem::load_global,
        mem::load_global_nc,
        mem::load_global_nc_no_allocate,
        mem::load_global_nc_evict_last,
        mem::load_global_nc_prefetch_128,
        mem::load_global_no_allocate,
        mem::load_global_evict_first,
        mem::load_global_evict_last,
        mem::load_global_streaming,
        mem::load_global_l2,
    ];
    let stores: [unsafe fn(*mut f32x4, f32x4); 7] = [
        mem::store,
        mem::store_shared,
        mem::store_global,
        mem::store_global_streaming,
        mem::store_global_l2,
        mem::store_global_write_through,
        mem::store_global_no_allocate,
    ];
    for load in loads {
        for store in stores {
            let mut target = [f32x4::default(); 2];
            // SAFETY: both arrays have two aligned elements.
            unsafe {
                for i in 0..2 {
                    store(target.as_mut_ptr().add(i), load(source.as_ptr().add(i)));
                }
            }
            let bits = |vectors: [f32x4; 2]| vectors.map(|v| v.to_array().map(f32::to_bits));
            assert_eq!(bits(target), bits(source));
        }
    }
}

#[test]
fn pairs_and_policies_copy() {
    let (policy, source) = (CachePolicy::evict_first(), u32x2::new(1, u32::MAX));
    let mut target = u32x2::default();
    // SAFETY: local vectors.
    unsafe {
        mem::store_global_with_policy(
            &raw mut target,
            mem::load_global_with_policy(&raw const source, policy),
            CachePolicy::evict_last(),
        )
    };
    assert_eq!(target, source);
    assert_eq!(<[f32; 2]>::from(f32x2::from([1.0, 2.0])), [1.0, 2.0]);
    assert_eq!(u32x4::splat(3).to_array(), [3; 4]);
    assert_eq!((align_of::<f32x4>(), align_of::<u32x4>(), align_of::<f32x2>()), (16, 16, 8));
}

#[test]
#[should_panic(expected = "mem::load_global: the address")]
fn a_misaligned_load_is_refused() {
    let floats = [f32x4::default(); 2];
    // SAFETY: the bytes exist; the function checks the alignment before it reads.
    unsafe { mem::load_global(floats.as_ptr().cast::<f32>().add(1).cast::<f32x4>()) };
}

#[test]
fn the_host_has_one_address_space() {
    let x = 5_u32;
    // SAFETY: a pointer to a local variable, which the host's conversions do not change.
    unsafe {
        let shared = ptr::convert_generic_to_specific_address_space(&raw const x, AddressSpace::Shared);
        assert_eq!(*ptr::convert_specific_address_space_to_generic(shared, AddressSpace::Shared), 5);
    }
}

#[test]
#[should_panic(expected = "has no answer on the CPU")]
fn the_address_space_of_a_pointer_is_refused() {
    let byte = 0_u8;
    // SAFETY: the function panics before it uses the pointer.
    unsafe { ptr::is_in_address_space(&raw const byte, AddressSpace::Global) };
}

#[test]
fn the_clock_does_not_run_backwards() {
    let (first, second) = (misc::clock(), misc::clock());
    assert!(second >= first);
    misc::profiler_counter(7);
}

#[test]
#[should_panic(expected = "a profiler counter is 0 to 7")]
fn a_profiler_counter_over_7_is_refused() {
    misc::profiler_counter(8);
}

#[test]
#[should_panic(expected = "trap")]
fn a_trap_ends_the_thread() {
    misc::trap();
}

#[test]
fn approximations_compute_the_function() {
    for i in -40..=40 {
        let x = i as f32 * 0.37;
        assert_eq!(fastmath::ex2_approx(x), x.exp2());
        assert_eq!(fastmath::tanh_approx(x), x.tanh());
        assert!((fastmath::exp_approx(x) - x.exp()).abs() <= 1e-5 * x.exp());
        assert_eq!(fastmath::rcp_approx(x), 1.0 / x);
        assert_eq!(fastmath::sin_approx_ftz(x), x.sin());
        assert_eq!(fastmath::div_approx(x, 3.0), x / 3.0);
    }
    let subnormal = f32::MIN_POSITIVE / 2.0;
    assert_eq!(fastmath::sqrt_approx_ftz(subnormal), 0.0);
    assert!(fastmath::sqrt_approx(subnormal) > 0.0);
    assert_eq!(fastmath::rcp_approx_ftz(-subnormal), f32::NEG_INFINITY);
    assert_eq!(fastmath::lg2_approx_ftz(subnormal), f32::NEG_INFINITY);
    assert_eq!(fastmath::ex2_approx_ftz(-130.0), 0.0);
    assert!(fastmath::ex2_approx(-130.0) > 0.0);
}

/// Calls the trait's methods, where a plain `x.sin()` would be the standard library's.
fn through_the_trait<T: GpuFloat + core::fmt::Debug>(x: T, y: T) -> [T; 8] {
    [
        x.fract(),
        x.signum(),
        x.div_euclid(y),
        x.rem_euclid(y),
        x.log(y),
        x.sin_cos().0,
        x.mul_add(y, y),
        x.powi(3),
    ]
}

#[test]
fn gpu_float_is_std_on_the_host() {
    for x in [-7.25_f64, -1.0, -0.0, 0.5, 3.0, 1e10] {
        for y in [-2.5_f64, 0.75, 3.0] {
            let expected = [
                x.fract(),
                x.signum(),
                x.div_euclid(y),
                x.rem_euclid(y),
                x.log(y),
                x.sin(),
                x.mul_add(y, y),
                x.powi(3),
            ];
            for (seen, expected) in through_the_trait(x, y).into_iter().zip(expected) {
                assert_eq!(seen.to_bits(), expected.to_bits(), "{x} and {y}");
            }
        }
    }
    assert!(GpuFloat::signum(f32::NAN).is_nan());
}

#[test]
fn float_ext_on_the_host() {
    assert_eq!((0.5_f32.sinpi(), 1.0_f64.cospi(), 1e9_f64.sinpi()), (1.0, -1.0, 0.0));
    assert_eq!(6.0_f32.frexp(), (0.75, 3));
    assert_eq!((FloatExt::gamma(5.0_f64), 10.0_f64.unbiased_exp(), 0.75_f32.ldexp(3)), (24.0, 3, 6.0));
    assert!((0.0_f64.norm_cdf() - 0.5).abs() < 1e-15);
    assert!((1.96_f32.norm_cdf() - 0.975).abs() < 1e-4);
    assert_eq!((f32::NAN.saturate(), 2.0_f64.saturate(), 0.25_f32.saturate()), (0.0, 1.0, 0.25));
    assert!((8.0_f64.rcbrt() - 0.5).abs() < 1e-15);
}

#[test]
#[should_panic(expected = "FloatExt::inv_norm_cdf has no implementation on the CPU")]
fn what_the_host_cannot_compute_is_refused() {
    0.5_f32.inv_norm_cdf();
}
