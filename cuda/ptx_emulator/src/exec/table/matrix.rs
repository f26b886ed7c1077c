//! Matrix instructions.

use std::collections::BTreeSet;

use crate::exec::counts::access;
use crate::exec::counts::event::Way;
use crate::exec::row::{Counts, Joint, Row, warp, warpgroup};
use crate::exec::tensor;
use crate::instr::Instr;

/// Of a warp's threads: 2 * 16 * 8 * k by 32 threads.
const MMA: Counts = Counts::Matrix(|i| 8 * tensor::depth(i));
/// Of a warpgroup's: 2 * 64 * n * k by 128 threads; k has 32 bytes.
const WGMMA: Counts = Counts::Matrix(|i| 2 * i.form.count as u64 * (256 / u64::from(i.form.from.bits)));

/// Accumulators are distinct, scales 1 or -1, and the flags of transposition 0 or 1.
fn operands(i: &Instr) -> Result<(), String> {
    let more = i.more();
    if more.d.iter().collect::<BTreeSet<_>>().len() < more.d.len() {
        return Err("an accumulator twice".to_owned());
    }
    if !more.literals[..2].iter().all(|scale| matches!(*scale, 1 | u64::MAX)) {
        return Err("a scale other than 1 and -1".to_owned());
    }
    if more.literals[2..].iter().any(|&flag| flag > 1) {
        Err("a flag other than 0 and 1".to_owned())
    } else {
        Ok(())
    }
}

const fn multiply(syntax: &'static str) -> Row {
    warpgroup(syntax, Joint::Multiply).counts(WGMMA).check(|i, _| operands(i))
}

#[rustfmt::skip]
pub(super) const ROWS: &[Row] = &[
    warp("mma.sync.aligned.m16n8k8.row.col.f32.f16|bf16.f16|bf16.f32 D*4, A*2:32, B*1:32, C*4", tensor::multiply).counts(MMA),
    warp("mma.sync.aligned.m16n8k16.row.col.f32.f16|bf16.f16|bf16.f32 D*4, A*4:32, B*2:32, C*4", tensor::multiply).counts(MMA),
    warp("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 D*4, A*4, B*2, C*4", tensor::multiply).counts(MMA),
    warp("ldmatrix.sync.aligned.m8n8.$matrices.?trans.shared|shared::cta.b16 D*n:32, [shared]", tensor::load)
        .counts(Counts::Deeds(|cx, i, note| access::matrix(cx, i, Way::Load, note))),
    warp("stmatrix.sync.aligned.m8n8.$matrices.?trans.shared|shared::cta.b16 [shared], A*n:32", tensor::store)
        .counts(Counts::Deeds(|cx, i, note| access::matrix(cx, i, Way::Store, note))),
    warp("movmatrix.sync.aligned.m8n8.trans.b16 d:32, a:32", tensor::transpose).counts(Counts::Matrix(|_| 0)),

    warpgroup("wgmma.fence.sync.aligned", Joint::Fence),
    warpgroup("wgmma.commit_group.sync.aligned", Joint::Commit),
    warpgroup("wgmma.wait_group.sync.aligned #", Joint::Wait),
    // 16-bit elements in shared memory may lie with M or N innermost.
    multiply("wgmma.mma_async.sync.aligned.$shape.f32.f16|bf16.f16|bf16 D*n, A*4:32, b:64, !c:1, #, #, #"),
    multiply("wgmma.mma_async.sync.aligned.$shape.f32.f16|bf16.f16|bf16 D*n, a:64, b:64, !c:1, #, #, #, #"),
    multiply("wgmma.mma_async.sync.aligned.$shape.f32.tf32|e4m3.tf32|e4m3 D*n, A*4:32, b:64, !c:1, #, #"),
    multiply("wgmma.mma_async.sync.aligned.$shape.f32.tf32|e4m3.tf32|e4m3 D*n, a:64, b:64, !c:1, #, #"),
];
