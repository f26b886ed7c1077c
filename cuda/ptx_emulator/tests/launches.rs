//! Launches: limits, turns, registers that nothing was written to, and what does not fit.

use crate::common::{Setup, eval, module};
use cuda_std::launch::{LaunchConfig, LaunchError, Limits};
use ptx_emulator::{Emulator, EmulatorError, PtxModule, Turns, UnwrittenRegisters};

fn parsed(declarations: &str, body: &str) -> PtxModule {
    PtxModule::parse(&module(declarations, body)).unwrap()
}

#[test]
fn launches_that_do_not_fit() {
    let emulator = Emulator::new(parsed(".global .u32 g;", ""));
    // SAFETY: no kernel runs.
    let launch = |name, args: &[&[u8]]| unsafe { emulator.launch(name, LaunchConfig::new(1, 1), args) };
    let text = |error: EmulatorError| error.to_string();
    assert_eq!(text(launch("j", &[]).unwrap_err()), "the module has no kernel `j`; it has k");
    let fewer = "kernel k: 1 arguments of [4] bytes, the PTX declares parameters of [8]";
    assert_eq!(text(launch("k", &[&[0; 4]]).unwrap_err()), fewer);
    let other = "the global variable `g` has 4 bytes, the value has 8";
    assert_eq!(text(emulator.set_global("g", &[0; 8]).unwrap_err()), other);
    assert_eq!(text(emulator.global("h").unwrap_err()), "the module has no global variable `h`");
    emulator.set_global("g", &7u32.to_le_bytes()).unwrap();
    assert_eq!(emulator.global("g").unwrap(), 7u32.to_le_bytes());
    let large = "kernel k: 49153 bytes of static shared memory, at most 49152 are allowed";
    let error = Setup::new().run(parsed(".shared .b8 s[49153];", "")).1.unwrap_err();
    assert_eq!(text(error), large);
    let empty = Emulator::new(PtxModule::parse(".version 8.6\n.target sm_90").unwrap());
    // SAFETY: no kernel runs.
    let error = unsafe { empty.launch("k", LaunchConfig::new(1, 1), &[]) }.unwrap_err();
    assert_eq!(text(error), "the module has no kernel `k`; it has none");
    let error = PtxModule::parse(".version 8.6 .target sm_90 .global .u64 x = generic(y);").unwrap_err();
    assert_eq!(text(error), "PTX line 1: there is no variable or function `y`");
}

#[test]
fn blocks_are_as_the_directives_say() {
    let run = |directive: &str, block: (u32, u32)| {
        let ptx = module("", "").replace("(.param .u64 out) {", &format!("(.param .u64 out) {directive} {{"));
        let config = LaunchConfig::new(1, block);
        Setup { config, ..Setup::new() }.run(PtxModule::parse(&ptx).unwrap()).1.map(|_| ())
    };
    for (directive, block) in [
        (".reqntid 64", (64, 1)),
        (".maxntid 16", (16, 1)),
        (".maxntid 16", (4, 4)),
        (".maxntid 8, 4", (32, 1)),
    ] {
        run(directive, block).unwrap();
    }
    for (directive, block) in
        [(".reqntid 64, 1, 1", (32, 1)), (".reqntid 8, 4, 1", (32, 1)), (".maxntid 16, 1, 1", (32, 1))]
    {
        let error = run(directive, block).unwrap_err().to_string();
        let expected = format!("a block of [{}, 1, 1] threads, and the PTX says `{directive}`", block.0);
        assert_eq!(error, format!("launch of k failed: {expected}"));
    }
}

#[test]
fn deep_nesting_is_an_error() {
    let deep = |open: &str, close: &str| format!("{}{}", open.repeat(20_000), close.repeat(20_000));
    for body in [deep("{", "}"), deep("{", ""), format!("mov.u32 %r1, {};", deep("(", ")"))] {
        let error = PtxModule::parse(&module("", &body)).unwrap_err().to_string();
        assert!(error.ends_with("nested more than 256 deep"), "{error}");
    }
}

#[test]
fn clusters_have_limits() {
    let config = LaunchConfig::new(3, 1).with_cluster(2);
    let odd = Setup { config, ..Setup::new() }.run(parsed("", "")).1;
    assert!(matches!(odd, Err(EmulatorError::Cluster { grid: 3, cluster: 2, .. })), "{odd:?}");
    let limits = |text: &str| Emulator::new(PtxModule::parse(text).unwrap()).limits().clone();
    let (one_line, error) = (module("", "").replace('\n', " "), ".version 8.6\n.address_size 64");
    assert_eq!(limits(&one_line).capability, 90);
    let error = PtxModule::parse(error).unwrap_err().to_string();
    assert_eq!(error, "PTX line 2: `.version` and `.target` are missing at the start of the module");
    let (newest, old) = (limits(&module("", "")), limits(&module("", "").replace("sm_90", "sm_75")));
    assert_eq!((newest.max_cluster, newest.capability), (Limits::default().max_cluster, 90));
    assert_eq!((old.max_cluster, old.capability, newest.max_cluster), (1, 75, 16));
    let error = old.check("k", &LaunchConfig::new(2, 1).with_cluster(2)).unwrap_err();
    assert!(matches!(error, LaunchError::ClusterSize { got: 2, max: 1, .. }), "{error}");
}

#[test]
fn blocks_and_threads_have_indices() {
    let body = "
        mov.u32 %r1, %ctaid.y; mov.u32 %r2, %nctaid.x; mov.u32 %r3, %ctaid.x; mad.lo.u32 %r4, %r1, %r2, %r3;
        mov.u32 %r5, %tid.y; mov.u32 %r6, %ntid.x; mov.u32 %r7, %tid.x; mad.lo.u32 %r8, %r5, %r6, %r7;
        mad.lo.u32 %r9, %r4, 6, %r8; mad.wide.u32 %rd1, %r9, 4, %out; st.global.u32 [%rd1], %r9;";
    let setup = Setup { config: LaunchConfig::new((2, 2), (3, 2)), ..Setup::new() };
    assert!(setup.run(parsed("", body)).0[..24].iter().copied().eq(0..24));
}

#[test]
fn blocks_of_a_cluster_write_to_each_other() {
    // Block `r` of `n` writes 10 * ctaid to place `r` of block `(r + 1) % n`, which stores it at out[ctaid].
    let body = "barrier.cluster.arrive.relaxed.aligned;
         mov.u32 %r1, %cluster_ctarank; mov.u32 %r2, %cluster_nctarank; mov.u32 %r3, %ctaid.x;
         add.u32 %r4, %r1, 1; rem.u32 %r4, %r4, %r2; mul.lo.u32 %r5, %r3, 10; mov.u64 %rd1, tile;
         cvta.shared.u64 %rd2, %rd1; mapa.u64 %rd3, %rd2, %r4; mad.wide.u32 %rd4, %r1, 4, %rd3;
         barrier.cluster.wait.aligned; st.u32 [%rd4], %r5;
         barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
         add.u32 %r6, %r1, %r2; sub.u32 %r6, %r6, 1; rem.u32 %r6, %r6, %r2;
         mad.wide.u32 %rd5, %r6, 4, %rd1; ld.shared.u32 %r7, [%rd5];
         mad.wide.u32 %rd6, %r3, 4, %out; st.global.u32 [%rd6], %r7;";
    for (turns, size) in
        [(Turns::Ascending, 1), (Turns::Descending, 2), (Turns::Ascending, 5), (Turns::Descending, 16)]
    {
        let config = LaunchConfig::new(2 * size, 3).with_cluster(size);
        let (out, result) =
            Setup { config, turns, ..Setup::new() }.run(parsed(".shared .align 8 .b8 tile[64];", body));
        result.unwrap();
        let expected = |i: u32| 10 * (i / size * size + (i % size + size - 1) % size);
        assert!(
            out.iter().copied().take(2 * size as usize).eq((0..2 * size).map(expected)),
            "{size}: {out:?}"
        );
    }
}

#[test]
fn a_missing_barrier_shows_in_one_order() {
    // Each thread reads what the one after it writes: with the last thread first that goes well by chance.
    let body = "
        mov.u32 %r1, %tid.x; mov.u64 %rd1, tile; mad.wide.u32 %rd2, %r1, 4, %rd1; st.shared.u32 [%rd2], %r1;
        add.u32 %r2, %r1, 1; and.b32 %r2, %r2, 31; mad.wide.u32 %rd3, %r2, 4, %rd1; ld.shared.u32 %r3, [%rd3];
        mad.wide.u32 %rd4, %r1, 4, %out; setp.lt.u32 %p1, %r1, 31; @%p1 st.global.u32 [%rd4], %r3;";
    let config = LaunchConfig::new(1, 32);
    let run =
        |turns| Setup { config, turns, ..Setup::new() }.run(parsed(".shared .align 4 .b8 tile[128];", body));
    let (descending, undefined) = run(Turns::Descending);
    assert!(descending[..31].iter().copied().eq(1..32) && undefined.unwrap().is_none());
    let (ascending, undefined) = run(Turns::Ascending);
    assert_eq!(
        (&ascending[..31], undefined.unwrap().map(|byte| byte.index)),
        (&[0x7ff5_7ff5; 31][..], Some(0))
    );
}

#[test]
fn an_undefined_byte_names_its_store() {
    let found = Setup::new().run(parsed("", "st.global.b32 [%out+4], %r1;")).1.unwrap().unwrap();
    let text = "byte 4 has bits 0xff that nothing was written to, stored in k at PTX line 8: `st.global.b32 [%out+4], %r1;`";
    assert_eq!(found.to_string(), text);
}

#[test]
fn noise_in_registers_is_another_for_each_seed() {
    let body = "cvt.u32.u16 %r3, %rs2; mov.u32 %r1, %tid.x; mad.wide.u32 %rd2, %r1, 4, %out; st.global.b32 [%rd2], %r3;";
    let of = |seed| {
        let config = LaunchConfig::new(1, 4);
        Setup { config, registers: UnwrittenRegisters::Noise(seed), ..Setup::new() }.run(parsed("", body)).0
    };
    let [first, second] = [1, 2].map(of);
    assert_eq!(first, of(1));
    assert!(first[0] != second[0] && first[0] != first[2] && (2..=0xffff).contains(&first[0]), "{first:x?}");
}

#[test]
fn approximations_are_within_their_bounds() {
    type Function = fn(f64) -> f64;
    let functions: [(&str, Function); 8] = [
        ("ex2.approx.f32", f64::exp2),
        ("lg2.approx.f32", f64::log2),
        ("rcp.approx.f32", f64::recip),
        ("sqrt.approx.f32", f64::sqrt),
        ("rsqrt.approx.f32", |x| 1.0 / x.sqrt()),
        ("sin.approx.f32", f64::sin),
        ("cos.approx.f32", f64::cos),
        ("tanh.approx.f32", f64::tanh),
    ];
    for (instruction, exact) in functions {
        for x in [0.1f32, 0.5, 1.0, 1.5, 2.0, 3.0] {
            let bits = eval(&format!("{instruction} %r1, 0f{:08X};", x.to_bits()));
            let (got, want) = (f64::from(f32::from_bits(bits)), exact(f64::from(x)));
            // The tightest bound the ISA gives to any of them is 2^-23 of the value.
            assert!((got - want).abs() <= want.abs() * 2f64.powi(-23), "{instruction} {x}: {got}, {want}");
        }
    }
}
