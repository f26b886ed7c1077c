//! Functions called by their addresses, as methods of trait objects are, and variables that hold such addresses.

use crate::common::{fault, run_module};
use cuda_std::launch::LaunchConfig;
use ptx_emulator::{Cause, EmulatorError, PtxModule};

/// Two functions, tables of their addresses, and a kernel whose body calls one with 10.
fn module(body: &str) -> String {
    format!(
        ".version 8.6\n.target sm_75\n.address_size 64
        .func (.param .b32 back) twice(.param .b32 given);
        .func (.param .b32 back) next(.param .b32 given);
        .extern .func (.param .b32 back) elsewhere(.param .b32 given);
        .global .align 8 .u64 table[4] = {{4, next, twice, elsewhere}};
        .global .align 1 .b8 bytes[9] = {{7, 0xFF(twice), 0xFF00(twice), 0xFF0000(twice), 0xFF000000(twice),
            0xFF00000000(twice), 0xFF0000000000(twice), 0xFF000000000000(twice), 0xFF00000000000000(twice)}};
        .global .align 8 .b8 nothing[16] = {{}};
        .global .align 8 .u64 inner[2] = {{generic(table+16), generic(table)+8}};
        .func (.param .b32 back) twice(.param .b32 given) {{
            .reg .b32 %r<3>; ld.param.b32 %r1, [given]; add.s32 %r2, %r1, %r1; st.param.b32 [back], %r2; ret;
        }}
        .func (.param .b32 back) next(.param .b32 given) {{
            .reg .b32 %r<3>; ld.param.b32 %r1, [given]; add.s32 %r2, %r1, 1; st.param.b32 [back], %r2; ret;
        }}
        .visible .entry k(.param .u64 out) {{
            .reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .b64 %out;
            ld.param.u64 %out, [out];
            {body}
            {{ .param .b32 given; .param .b32 got; st.param.b32 [given], 10;
            prototype_0 : .callprototype (.param .b32 _) _ (.param .b32 _);
            call (got), %rd1, (given), prototype_0;
            ld.param.b32 %r1, [got]; }}
            st.global.b32 [%out], %r1;
            ret;
        }}"
    )
}

#[test]
fn a_function_is_called_by_its_address() {
    let byte = |at: u32| {
        let shift = 8 * (at - 1);
        format!("ld.global.u8 %rd3, [bytes+{at}]; shl.b64 %rd3, %rd3, {shift}; or.b64 %rd1, %rd1, %rd3;")
    };
    let bytes = format!("mov.b64 %rd1, 0; {}", (1..9).map(byte).collect::<String>());
    let cases = [
        ("mov.b64 %rd1, twice;", 20),
        ("mov.b64 %rd1, next;", 11),
        ("ld.global.b64 %rd1, [table+8];", 11),
        ("ld.global.b64 %rd2, [inner]; ld.b64 %rd1, [%rd2];", 20),
        ("ld.global.b64 %rd2, [inner+8]; ld.b64 %rd1, [%rd2];", 11),
        ("ld.global.b64 %rd2, [nothing+8]; ld.global.b64 %rd1, [table+8]; add.s64 %rd1, %rd1, %rd2;", 11),
        (&bytes, 20),
    ];
    for (body, expected) in cases {
        let mut out = [0u32];
        run_module(&module(body), LaunchConfig::new(1, 1), &mut out)
            .unwrap_or_else(|error| panic!("{body}: {error}"));
        assert_eq!(out, [expected], "{body}");
    }
}

#[test]
fn what_is_no_function_is_not_called() {
    let cause = |body: &str| fault(&module(body), LaunchConfig::new(1, 1), &mut [0u32]).0;
    assert_eq!(cause("mov.b64 %rd1, 16;"), Cause::NoFunction { address: 16 });
    assert!(matches!(cause("mov.b64 %rd1, table;"), Cause::NoFunction { .. }));
    assert!(matches!(cause("ld.global.b64 %rd1, [table+24];"), Cause::NoFunction { .. }));
    assert!(matches!(cause("mov.b64 %rd1, next; add.s64 %rd1, %rd1, 1;"), Cause::NoFunction { .. }));
    assert!(matches!(cause(""), Cause::Undefined { register, .. } if register == "%rd1"));
    let other = module("mov.b64 %rd1, next;").replace(".b32 given;", ".b64 given;");
    let cause = fault(&other, LaunchConfig::new(1, 1), &mut [0u32]).0;
    assert_eq!(cause, Cause::WrongCall { name: "next".to_owned() });
}

#[test]
fn bytes_of_addresses_are_bytes() {
    let ptx = ".version 8.6\n.target sm_75\n.address_size 64\n.global .u32 x; .global .b8 y[1] = {0xFF1(x)};";
    match PtxModule::parse(ptx) {
        Err(EmulatorError::Syntax { message, .. }) => assert_eq!(message, "0xff1 is no byte of an address"),
        other => panic!("{other:?}"),
    }
}

/// A kernel that calls a function of three parameters, which has this body, with 11, 22 and 33.
fn of_three(body: &str) -> String {
    format!(
        ".version 8.6\n.target sm_90\n.address_size 64
        .func (.param .b32 back) choose(.param .b32 a, .param .b32 b, .param .b32 c) {{
            .reg .pred %p<2>; .reg .b32 %r<5>; .reg .b64 %rd<5>;
            mov.b64 %rd1, a; mov.b64 %rd2, c; ld.param.b32 %r2, [b]; setp.gt.u32 %p1, %r2, 20;
            selp.b64 %rd3, %rd2, %rd1, %p1; {body} st.param.b32 [back], %r1; ret;
        }}
        .visible .entry k(.param .u64 out) {{
            .reg .b32 %r<9>; .reg .b64 %rd<9>; ld.param.u64 %rd1, [out];
            {{ .param .b32 a; .param .b32 b; .param .b32 c; .param .b32 got;
            st.param.b32 [a], 11; st.param.b32 [b], 22; st.param.b32 [c], 33;
            call (got), choose, (a, b, c); ld.param.b32 %r1, [got]; }}
            st.global.b32 [%rd1], %r1; ret;
        }}"
    )
}

/// `select` of two parameters, loaded from the address that is chosen.
#[test]
fn a_parameter_is_read_by_its_address() {
    for (body, expected) in [("ld.param.b32 %r1, [%rd3];", 33), ("ld.param.b32 %r1, [%rd1];", 11)] {
        let mut out = [0u32];
        run_module(&of_three(body), LaunchConfig::new(1, 1), &mut out).unwrap();
        assert_eq!(out, [expected], "{body}");
    }
    let cause = |body: &str| fault(&of_three(body), LaunchConfig::new(1, 1), &mut [0u32]).0;
    assert!(matches!(cause("ld.param.b32 %r1, [%rd3+4096];"), Cause::OutOfBounds { .. }));
    assert!(matches!(cause("st.param.b32 [%rd3], 5; mov.b32 %r1, 0;"), Cause::Unsupported(_)));
}
