//! Lowers a module's `.version` to the oldest PTX version that has its instructions, so that older drivers load it.
//!
//! libNVVM writes at least version 8.6, which needs a driver of CUDA 12.7. Most kernels need no more than the version that
//! introduced their architecture. The versions are those of the PTX ISA, sections "PTX ISA Notes" of the instructions and
//! "Release Notes". A module with a word that is not listed keeps its version.

use std::collections::HashMap;
use std::sync::LazyLock;

use cuda_ir::ptx::Ptx;

use crate::arch::NvvmArch;

/// This file. When it changes, cached output is invalid.
pub(crate) const SOURCE: &str = include_str!("ptx_version.rs");

/// Words of opcodes and directives, and the version that introduced them.
const WORDS: &[(u32, &str)] = &[
    // Older than the architectures.
    (
        63,
        "abs activemask add addc and any approx atom b16 b32 b64 b8 ballot bar barrier bfe bfi bfind bfly bra brev brkpt brx
         c0 ca call cas cc cg clz cnot const copysign cos cs cta cv cvt cvta dec div down dp2a dp4a eq equ ex2 exch exit f16
         f16x2 f32 f64 fence fma ftz full ge geu global gpu gt gtu hi hs idx inc isspacep ld ldu le leu lg2 lo local lop3 ls lt
         ltu mad mad24 madc match max membar min mov mul mul24 nan nanosleep nc ne neg neu noftz not num or param pmevent popc
         pred prefetch prefetchu prmt rcp red rem ret rm rn rni rmi rp rpi rsqrt rz rzi s16 s32 s64 s8 sad sat selp set setp
         shared shf shfl shl shr sin slct sqrt st sub subc sync sys testp to trap u16 u32 u64 u8 uni up v2 v4 volatile vote
         warp wide wrap xor acq_rel acquire relaxed release sc weak aligned arrive all L1 L2
         .reg .shared .local .param .loc .pragma .branchtargets .callprototype .calltargets .align l r row col trans",
    ),
    (64, ".noreturn"),
    (65, "ldmatrix m8n8 mma m16n8k8 x1 x2 x4"),
    (
        70,
        "NaN async bf16 bf16x2 commit_group cp m16n8k4 m16n8k16 m16n8k32 mbarrier init inval noComplete noinc pending_count redux
         relu rna tanh test_wait tf32 wait_all wait_group",
    ),
    (71, "parity"),
    (72, "xorsign"),
    (73, "alloca stackrestore stacksave"),
    (74, "applypriority createpolicy discard fractional L1::evict_first L1::evict_last L1::evict_normal L1::evict_unchanged
          L1::no_allocate L2::128B L2::256B L2::64B L2::cache_hint L2::evict_first L2::evict_last L2::evict_normal range"),
    (75, "proxy alias"),
    (76, "bmsk clamp szext"),
    (
        78,
        "cluster dependents getctarank griddepcontrol launch_dependents mapa movmatrix rank shared::cluster shared::cta
         stmatrix try_wait wait",
    ),
    (
        80,
        "bulk bulk_group complete_tx::bytes elect expect_tx mbarrier::complete_tx::bytes mbarrier_init multicast::cluster read
         reduce setmaxnreg tensor tile 1d 2d 3d 4d 5d mma_async wgmma tensormap",
    ),
];

/// Opcodes and another word of theirs that came later than both.
const PAIRS: &[(u32, &str, &str)] = &[
    (78, "bar", "cta"),
    (78, "barrier", "cta"),
    (78, "add", "bf16 bf16x2"),
    (78, "sub", "bf16 bf16x2"),
    (78, "mul", "bf16 bf16x2"),
    (78, "set", "bf16 bf16x2"),
    (78, "setp", "bf16 bf16x2"),
    (78, "ex2", "bf16 bf16x2"),
    (78, "tanh", "bf16 bf16x2"),
    (78, "atom", "bf16 bf16x2"),
    (78, "red", "bf16 bf16x2"),
    (80, "barrier", "relaxed"),
    (80, "max", "relu"),
    (80, "min", "relu"),
    (80, "fence", "async mbarrier_init"),
    (80, "mbarrier", "acquire cluster release shared::cluster"),
    (81, "atom", "v2 v4"),
    (81, "red", "async v2 v4"),
    (81, "st", "async"),
    (83, "fence", "tensormap"),
    (86, "mbarrier", "relaxed"),
    (86, "redux", "f32"),
];

/// Parts of names that are not opcodes.
const NAMES: &[(u32, &str)] = &[
    (72, "inlined_at"),
    (76, "%reserved_smem_offset"),
    (78, "%cluster"),
    (78, "%nclusterid"),
    (78, "%is_explicit_cluster"),
    (78, ".explicitcluster"),
    (78, ".maxclusterrank"),
    (78, ".reqnctapercluster"),
    (80, "%current_graph_exec"),
    (81, "%aggr_smem_size"),
    (83, ".b128"),
    (90, ".blocksareclusters"),
];

/// A hint that version 8.3 introduced: which bytes of a vector load are used.
const USED_BYTES: &str = ".pragma \"used_bytes_mask";

/// Sets the version of a module for `arch` to the oldest that allows it, and removes hints that need a newer one.
pub(crate) fn lower(ptx: &str, arch: NvvmArch) -> String {
    let hinted = |line: &&str| !line.trim_start().starts_with(USED_BYTES);
    let ptx: String = ptx.split_inclusive('\n').filter(hinted).collect();
    let directive = "\n.version ";
    let Some(start) = ptx.find(directive).map(|at| at + directive.len()) else { return ptx };
    let end = ptx[start..].find('\n').map_or(ptx.len(), |len| start + len);
    let Some(least) = least(&ptx).map(|least| least.max(arch.oldest_ptx_version())) else { return ptx };
    format!("{}{}.{}{}", &ptx[..start], least / 10, least % 10, &ptx[end..])
}

/// The oldest version that has all words of the module, if they are known.
fn least(ptx: &str) -> Option<u32> {
    static SINCE: LazyLock<HashMap<&str, u32>> = LazyLock::new(|| {
        let words = |(since, words): &(u32, &'static str)| {
            let since = *since;
            words.split_whitespace().map(move |word| (word, since)).collect::<Vec<_>>()
        };
        WORDS.iter().flat_map(words).collect()
    });
    let named = NAMES.iter().filter(|(_, name)| ptx.contains(name)).map(|(since, _)| *since);
    let mut least = named.max().unwrap_or(0);
    let module = Ptx::parse(ptx);
    if module.functions.iter().any(|function| function.is_noreturn) {
        least = least.max(SINCE[".noreturn"]);
    }
    let mut seen = HashMap::new();
    let statements = module.functions.iter().flat_map(|function| &function.statements);
    // Braces of operands divide statements too.
    for statement in statements.filter(|text| text.starts_with(|c: char| c == '.' || c.is_ascii_lowercase()))
    {
        // `prototype_0 : .callprototype ..`
        let statement = statement.find(" : .").map_or(&**statement, |at| &statement[at + 3..]);
        let opcode = statement.split([' ', '\t', '\n']).next().unwrap_or_default();
        let since = *seen.entry(opcode).or_insert_with(|| since(opcode, &SINCE));
        least = least.max(since?);
    }
    Some(least)
}

/// The version that introduced the opcode or directive, if all its words are known.
fn since(opcode: &str, since: &HashMap<&str, u32>) -> Option<u32> {
    if opcode.starts_with('.') {
        return since.get(opcode).copied();
    }
    let words: Vec<&str> = opcode.split('.').collect();
    let root = words[0];
    let has = |word: &str| words.contains(&word);
    let mut least = 0;
    for word in &words {
        // The shape of a matrix multiplication by a warpgroup.
        let is_shape =
            root == "wgmma" && word.starts_with("m64n") && word.ends_with(|c: char| c.is_ascii_digit());
        least = least.max(if is_shape { 80 } else { *since.get(word)? });
    }
    for (version, of, with) in PAIRS {
        if *of == root && with.split(' ').any(has) {
            least = least.max(*version);
        }
    }
    let last = words[words.len() - 1];
    Some(match root {
        // From `bf16`, and to `tf32` by another rounding.
        "cvt" if last == "bf16" => least.max(78),
        "cvt" if has("tf32") && !has("rna") => least.max(78),
        "mma" if has("f64") && !has("m8n8k4") => least.max(78),
        // To the shared memory of the block itself.
        "cp" if has("bulk")
            && words.iter().find(|word| word.starts_with("shared")) == Some(&"shared::cta")
            && !has("bulk_group") =>
        {
            least.max(86)
        }
        _ => least,
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::{CudaBuilder, ptxas};

    fn module(version: u32, arch: NvvmArch, body: &str) -> String {
        format!(
            "//\n.version {}.{}\n.target {}\n.address_size 64\n.visible .entry k(.param .b64 p)\n{{\n\
             .reg .pred %p<4>; .reg .b16 %h<4>; .reg .b32 %r<9>; .reg .f32 %f<9>; .reg .b64 %d<9>; .reg .f64 %g<9>;\n\
             .shared .align 16 .b8 s[64];\nld.param.b64 %d1, [p];\n{body}\nret;\n}}\n",
            version / 10,
            version % 10,
            arch.processor()
        )
    }

    /// ptxas accepts each module in the version that it gets, and refuses it in the one before.
    #[test]
    fn modules_get_the_oldest_version_that_ptxas_accepts() {
        use NvvmArch::*;
        let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
        let tools = CudaBuilder::tools_dir_in(&folder.ancestors().nth(2).unwrap().join("target"));
        let ptxas = ptxas::find(&tools, &|_| {}).unwrap();
        let accepts = |version: u32, arch, body: &str| {
            ptxas::assemble(&ptxas, &module(version, arch, body), Path::new("k.ptx"), arch).map(drop)
        };
        for (arch, expected, body) in [
            (Compute75, 63, "st.global.v4.b32 [%d1], {%r1, %r2, %r3, %r4};"),
            (Compute75, 63, "@%p1 bra $L1; $L1: shfl.sync.bfly.b32 %r1|%p1, %r2, 1, 31, -1;"),
            (Compute75, 65, "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r1, %r2, %r3, %r4}, [s];"),
            (Compute75, 74, "ld.global.nc.L2::128B.f32 %f1, [%d1];"),
            (Compute75, 63, "pro : .callprototype ()_ (); call %d1, (), pro;"),
            (Compute75, 63, ".pragma \"nounroll\";"),
            (Compute75, 63, ".pragma \"used_bytes_mask 0xff\";\nld.global.b64 %d2, [%d1];"),
            (
                Compute80,
                70,
                "cp.async.cg.shared.global [s], [%d1], 16; cp.async.commit_group; cp.async.wait_all;",
            ),
            (Compute80, 70, "max.NaN.f32 %f1, %f2, %f3;"),
            (Compute80, 70, "fma.rn.relu.bf16x2 %r1, %r2, %r3, %r4;"),
            (Compute80, 70, "cvt.rn.bf16x2.f32 %r1, %f1, %f2;"),
            (
                Compute80,
                70,
                "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%f1, %f2, %f3, %f4}, {%r1, %r2, %r3, %r4}, \
              {%r5, %r6}, {%f1, %f2, %f3, %f4};",
            ),
            (Compute80, 70, "redux.sync.add.s32 %r1, %r2, -1;"),
            (Compute80, 70, "mbarrier.init.shared.b64 [s], 32; mbarrier.test_wait.shared.b64 %p1, [s], %d2;"),
            (Compute86, 71, "mbarrier.test_wait.parity.shared.b64 %p1, [s], %r2;"),
            (Compute87, 74, "ret;"),
            (Compute89, 78, "ret;"),
            (Compute90, 78, "mapa.shared::cluster.u32 %r1, %r2, 1; mov.u32 %r1, %cluster_ctarank;"),
            (Compute90, 78, "griddepcontrol.wait; barrier.cluster.arrive; add.rn.bf16x2 %r1, %r2, %r3;"),
            (Compute90, 78, "mbarrier.try_wait.shared::cta.b64 %p1, [s], %d2;"),
            (Compute90, 80, "mbarrier.arrive.expect_tx.shared.b64 %d2, [s], 32;"),
            (Compute90, 80, "barrier.cluster.arrive.relaxed; fence.mbarrier_init.release.cluster;"),
            (Compute90, 80, "fence.proxy.async;"),
            (Compute90, 80, "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [s];"),
            (Compute90, 86, "mbarrier.arrive.relaxed.cluster.shared::cluster.b64 _, [s];"),
            (Compute90, 80, "max.relu.s32 %r1, %r2, %r3;"),
            (
                Compute90,
                80,
                "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [s], [%d1], 64, [s];",
            ),
            (Compute90, 80, "cp.async.bulk.global.shared::cta.bulk_group [%d1], [s], 64;"),
            (Compute90, 80, "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%d1], [s], 64;"),
            (
                Compute90,
                86,
                "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [s], [%d1], 64, [s];",
            ),
            (Compute90, 81, "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b32 [s], %r1, [s];"),
            (Compute90, 81, "red.global.add.v2.f32 [%d1], {%f1, %f2};"),
            (Compute90a, 80, "setmaxnreg.dec.sync.aligned.u32 40; wgmma.fence.sync.aligned;"),
            (Compute100, 86, "ret;"),
            (Compute120, 87, "ret;"),
        ] {
            let lowered = lower(&module(90, arch, body), arch);
            let without_hint = body.replace(".pragma \"used_bytes_mask 0xff\";\n", "");
            assert_eq!(lowered, module(expected, arch, &without_hint), "{body}");
            accepts(expected, arch, &without_hint)
                .unwrap_or_else(|error| panic!("{expected} {body}: {error}"));
            if expected > arch.oldest_ptx_version() {
                let before = if expected == 70 { 65 } else { expected - 1 };
                assert!(accepts(before, arch, &without_hint).is_err(), "{before} {body}");
            }
        }
    }

    #[test]
    fn a_module_with_an_unknown_word_keeps_its_version() {
        for body in ["add.later.f32 %f1, %f2, %f3;", "later %f1;", ".later 1;"] {
            let ptx = module(86, NvvmArch::Compute80, body);
            assert_eq!(lower(&ptx, NvvmArch::Compute80), ptx);
        }
        assert_eq!(lower("no module", NvvmArch::Compute80), "no module");
    }
}
