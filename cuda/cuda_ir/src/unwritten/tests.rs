use super::*;

/// A kernel with registers of each class.
fn kernel(body: &str) -> String {
    format!(
        ".version 8.6\n.target sm_90\n.address_size 64\n\n.visible .entry k(\n\t.param .u64 k_param_0\n)\n{{\n\
         \t.reg .pred \t%p<4>;\n\t.reg .b16 \t%rs<9>;\n\t.reg .b32 \t%r<9>;\n\t.reg .b64 \t%rd<9>;\n{body}\n}}\n"
    )
}

/// The inserted lines, without surrounding white space.
#[track_caller]
fn added(body: &str) -> Vec<String> {
    let text = kernel(body);
    let edited = initialise(&text).into_owned();
    assert_eq!(initialise(&edited), edited, "nothing is left to initialise");
    let before: Vec<&str> = text.lines().collect();
    let mut rest = before.iter().peekable();
    edited
        .lines()
        .filter(|line| rest.next_if(|old| *old == line).is_none())
        .map(|line| line.trim().to_owned())
        .collect()
}

/// A register that a mask keeps right, on the paths that write it.
const MASKED: &str = "
    setp.eq.u32 %p1, 1, 0; @%p1 bra L;
    ld.global.b8 %rs1,[%rd2+1]; and.b16 %rs2,%rs1,1;
L:  cvt.u32.u16 %r3,%rs2; and.b32 %r4,%r3,255; st.global.b32 [%rd1],%r4; ret;";

#[test]
fn a_register_that_one_path_leaves_unwritten_starts_at_zero() {
    let with_addresses = format!("mov.b64 %rd1, 0; mov.b64 %rd2, 0;{MASKED}");
    assert_eq!(added(&with_addresses), ["mov.b16 \t%rs2, 0;"]);
    let text = kernel(&with_addresses);
    let edited = initialise(&text);
    let head = "\t.reg .b64 \t%rd<9>;\n\tmov.b16 \t%rs2, 0;\nmov.b64 %rd1";
    assert!(edited.contains(head), "after the declarations, before all instructions: {edited}");
}

#[test]
fn a_function_that_writes_every_register_first_stays_as_it_is() {
    for body in [
        "ret;",
        "mov.b32 %r1, 0; L: add.s32 %r1, %r1, 1; setp.lt.s32 %p1, %r1, 9; @%p1 bra L; ret;",
        // Both paths write it.
        "mov.pred %p1, 0; @%p1 bra A; mov.b32 %r1, 1; bra.uni B; A: mov.b32 %r1, 2; B: st.global.b32 [0], %r1; ret;",
        // No path leads on from where it is not written.
        "mov.pred %p1, 0; @%p1 bra A; trap; A: mov.b32 %r1, 2; st.global.b32 [0], %r1; exit;",
        // The loop's last iteration writes the register that the code after it reads.
        "L: mov.b32 %r1, 2; setp.lt.s32 %p1, %r1, 9; @%p1 bra L; st.global.b32 [0], %r1; ret;",
        "ld.global.v2.b32 {%r1, %r2}, [0]; mov.b64 %rd1, {%r1, %r2}; mov.b64 {%r3, _}, %rd1; red.global.add.u32 [%rd1], %r3; ret;",
        "mov.b32 %r1, 0; shfl.sync.idx.b32 %r2|%p1, %r1, 0, 31, -1; selp.b32 %r3, 1, %r2, %p1; bar.sync %r3; ret;",
        "{ .param .b32 a; call.uni (%r1), f, (a); } st.global.b32 [0], %r1; ret;",
        "mov.b32 %r1, 1; $T: .branchtargets A, B; brx.idx %r1, $T; A: mov.b32 %r2, 1; bra C; B: mov.b32 %r2, 2; \
         C: st.global.b32 [0], %r2; ret;",
        "{ .reg .b32 t; mov.b32 t, 1; mov.b32 %r1, t; } { .reg .b32 t; mov.b32 t, 1; mov.b32 %r1, t; } ret;",
        ".loc 1 7 3, function_name $L__info, inlined_at 1 9 %r5\n mov.u32 %r1, %tid.x; .pragma \"nounroll %r1;\"; /* %r2; */ // %r3\n ret;",
    ] {
        assert_eq!(added(body), [""; 0], "{body}");
        assert!(matches!(initialise(&kernel(body)), Cow::Borrowed(_)), "{body}");
    }
}

#[test]
fn a_register_that_may_be_unwritten_is_found() {
    for (body, expected) in [
        // Only in the first block.
        ("add.s32 %r1, %r1, 1; ret;", &["mov.b32 \t%r1, 0;"][..]),
        // A guarded write may leave the old value.
        ("mov.pred %p1, 1; @!%p1 mov.b64 %rd1, 1; st.global.b64 [0], %rd1; ret;", &["mov.b64 \t%rd1, 0;"]),
        ("@%p3 bra L; L: ret;", &["mov.pred \t%p3, 0;"]),
        // In a loop that reads before it writes.
        (
            "mov.pred %p1, 1; L: st.global.b32 [0], %r7; mov.b32 %r7, 1; @%p1 bra L; ret;",
            &["mov.b32 \t%r7, 0;"],
        ),
        // One of the targets of a branch table.
        (
            "mov.b32 %r1, 1; brx.idx %r1, $T; $T: .branchtargets A, B; A: mov.b32 %r2, 1; B: st.global.b32 [0], %r2; ret;",
            &["mov.b32 \t%r2, 0;"],
        ),
        (
            "mov.b32 %r1, 1; brx.idx %r1, $T; A: mov.b32 %r2, 1; B: st.global.b32 [0], %r2; ret;",
            &["mov.b32 \t%r2, 0;"],
        ),
        (
            "st.global.v2.b32 [%rd1], {%r1, %r2}; ret;",
            &["mov.b32 \t%r1, 0;", "mov.b32 \t%r2, 0;", "mov.b64 \t%rd1, 0;"],
        ),
        ("call.uni %rd1, (%r2), proto; ret;", &["mov.b32 \t%r2, 0;", "mov.b64 \t%rd1, 0;"]),
    ] {
        assert_eq!(added(body), expected, "{body}");
    }
}

#[test]
fn registers_of_inner_scopes_and_of_other_classes_are_set_where_they_are_declared() {
    let text = kernel(
        "L: mov.pred %p1, 0; { .reg .f32 t; .reg .b16 %rs<2>; @%p1 mov.b32 t, 1; mov.b32 %r1, t; mov.b16 %rs5, %rs1; } \
         @%p1 bra L; .reg .b16x2 x; .reg .f16x2 y; .reg .b128 q; mov.b32 %r2, y; mov.b128 {%rd1, %rd2}, q; ret;",
    );
    let edited = initialise(&text);
    let expected = ".reg .b16 %rs<2>;\n\tmov.b32 \tt, 0;\n\tmov.b16 \t%rs1, 0; @%p1 mov.b32 t, 1;";
    assert!(edited.contains(expected), "{edited}");
    assert!(edited.contains(".reg .f16x2 y;\n\tmov.b32 \ty, 0;"), "{edited}");
    assert!(edited.contains("mov.b64 %zero, 0; mov.b128 q, {%zero, %zero}; }"), "{edited}");
    assert_eq!(initialise(&edited), edited);
}

#[test]
fn every_function_of_a_module_is_read() {
    let text = ".file 1 \"a{b\"\n.extern .func (.param .b32 r) vprintf (.param .b64 f);\n\
                .global .align 4 .b8 table[4] = {1, 2, 3, 4};\n\
                .func (.param .b32 back) one(.param .b32 x)\n{\n.reg .b32 %r<3>;\nst.param.b32 [back], %r1; ret;\n}\n\
                .visible .entry two() .maxntid 32\n{\n.reg .f64 %fd<3>;\nst.global.f64 [0], %fd2; ret;\n}\n\
                .section .debug_str { $L: .b8 1 }\n";
    let edited = initialise(text);
    assert!(
        edited.contains("%r<3>;\n\tmov.b32 \t%r1, 0;") && edited.contains("%fd<3>;\n\tmov.b64 \t%fd2, 0;"),
        "{edited}"
    );
}

#[test]
fn damaged_modules_are_no_panic() {
    let text = kernel(&format!("{MASKED} {{ .reg .f32 t; @%p1 mov.b32 t, 1; }} /* */ \"a\" L1::b: x::"));
    for cut in (0..text.len()).filter(|&cut| text.is_char_boundary(cut)) {
        initialise(&text[..cut]);
        initialise(&format!("{}{}", &text[..cut / 2], &text[cut..]));
    }
}
