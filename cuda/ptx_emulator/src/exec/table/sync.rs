//! Control flow, fences, barriers, and operations of a warp's lanes.

use crate::error::Cause;
use crate::exec::counts::event::Collective;
use crate::exec::int;
use crate::exec::mbarrier::Op;
use crate::exec::row::{Counts, Flow, Joint, Row, act, lanes, nothing, step, warpgroup};
use crate::exec::wait::{BarrierRed, Wait};
use crate::exec::warp::{Shuffle, ballot, fold, matches, shuffle};

const BARRIER: Counts = Counts::Collective(Collective::Barrier);
const MBARRIER: Counts = Counts::Collective(Collective::Mbarrier);
const SHUFFLE: Counts = Counts::Collective(Collective::Shuffle);

#[rustfmt::skip]
pub(super) const ROWS: &[Row] = &[
    step("bra.?uni label", |_, i| Ok(Flow::Jump(i.more().targets[0]))).leaves().counts(Counts::Branch),
    step("brx.idx.?uni a:32, labels", |cx, i| {
        let (index, targets) = (cx.value(i.a)?, &i.more().targets);
        let missing = || Cause::Unsupported(format!("target {index} of {}", targets.len()));
        Ok(Flow::Jump(*targets.get(index as usize).ok_or_else(missing)?))
    }).leaves().counts(Counts::Branch),
    step("call.?uni call", |cx, i| cx.call(i)),
    step("exit", |_, _| Ok(Flow::Exit)).leaves(),
    step("trap", |_, _| Err(Cause::Trap.into())).leaves(),
    // Lets the other threads of the block run.
    step("nanosleep.u32 a", |_, _| Ok(Flow::Yield)),
    nothing("pmevent.?mask .."),
    // Grids run one after the other, so the awaited grid has ended.
    nothing("griddepcontrol.wait|launch_dependents"),

    nothing("membar.*"),
    nothing("fence.*"),
    // Global memory never needs this fence, as far as is known.
    nothing("fence.proxy.async.global"),
    act("fence.proxy.async.?shared::cta", |cx, _| { cx.shared.unfenced.fence(false); Ok(()) }),
    act("fence.mbarrier_init.release.cluster", |cx, _| { cx.shared.unfenced.fence(true); Ok(()) }),

    step("bar|barrier.?cta.sync.?aligned a:32, b:32?", |cx, i| cx.at_barrier(i, None)).counts(BARRIER),
    step("bar|barrier.?cta.arrive.?aligned a:32, b:32", |cx, i| cx.arrive_at(i)).counts(BARRIER),
    step("bar|barrier.?cta.red.popc.?aligned.u32 d, a:32, !c:1, b:32?", |cx, i| cx.at_barrier(i, Some(BarrierRed::Popc)))
        .counts(BARRIER),
    step("bar|barrier.?cta.red.popc.?aligned.u32 d, a:32, b:32, !c:1", |cx, i| cx.at_barrier(i, Some(BarrierRed::Popc)))
        .counts(BARRIER),
    step("bar|barrier.?cta.red.and.?aligned.pred d, a:32, !c:1, b:32?", |cx, i| cx.at_barrier(i, Some(BarrierRed::And)))
        .counts(BARRIER),
    step("bar|barrier.?cta.red.and.?aligned.pred d, a:32, b:32, !c:1", |cx, i| cx.at_barrier(i, Some(BarrierRed::And)))
        .counts(BARRIER),
    step("bar|barrier.?cta.red.or.?aligned.pred d, a:32, !c:1, b:32?", |cx, i| cx.at_barrier(i, Some(BarrierRed::Or)))
        .counts(BARRIER),
    step("bar|barrier.?cta.red.or.?aligned.pred d, a:32, b:32, !c:1", |cx, i| cx.at_barrier(i, Some(BarrierRed::Or)))
        .counts(BARRIER),
    act("barrier.cluster.arrive.?release|relaxed.?aligned", |cx, _| cx.arrive()),
    step("barrier.cluster.wait.?acquire.?aligned", |cx, i| cx.at_cluster_barrier(i))
        .counts(Counts::Collective(Collective::ClusterBarrier)),

    step("mbarrier.*.init.shared|shared::cta.b64 [shared], a:32", |cx, i| cx.mbarrier(i, Op::Init)).counts(MBARRIER),
    step("mbarrier.*.inval.shared|shared::cta.b64 [shared]", |cx, i| cx.mbarrier(i, Op::Inval)).counts(MBARRIER),
    step("mbarrier.*.arrive.shared|shared::cta.b64 d, [shared]", |cx, i| cx.mbarrier(i, Op::Arrive)).counts(MBARRIER),
    step("mbarrier.*.arrive.shared::cluster.b64 _, [shared::cluster]", |cx, i| cx.mbarrier(i, Op::Arrive))
        .counts(MBARRIER),
    step("mbarrier.*.arrive.expect_tx.shared|shared::cta.b64 d, [shared], a:32",
        |cx, i| cx.mbarrier(i, Op::ArriveExpect)).counts(MBARRIER),
    step("mbarrier.*.arrive.expect_tx.shared::cluster.b64 _, [shared::cluster], a:32",
        |cx, i| cx.mbarrier(i, Op::ArriveExpect)).counts(MBARRIER),
    step("mbarrier.*.expect_tx.shared|shared::cta.b64 [shared], a:32", |cx, i| cx.mbarrier(i, Op::Expect))
        .counts(MBARRIER),
    step("mbarrier.*.complete_tx.shared|shared::cta.b64 [shared], a:32", |cx, i| cx.mbarrier(i, Op::Complete))
        .counts(MBARRIER),
    step("mbarrier.*.test_wait|try_wait.shared|shared::cta.b64 d:1, [shared], a:64",
        |cx, i| cx.mbarrier(i, Op::Wait { parity: false })).counts(MBARRIER),
    step("mbarrier.*.test_wait|try_wait.parity.shared|shared::cta.b64 d:1, [shared], a:32",
        |cx, i| cx.mbarrier(i, Op::Wait { parity: true })).counts(MBARRIER),

    step("activemask.b32 d", |_, i| Ok(Flow::Wait(Wait::ActiveMask { d: i.d })))
        .counts(Counts::Collective(Collective::Vote)),
    lanes("bar.warp.sync e:32", |_, _, _| Ok((0, false))).counts(Counts::Collective(Collective::WarpBarrier)),
    lanes("shfl.sync.up.b32 d|p, a, b, c, e", |lanes, lane, own| shuffle(lanes, lane, own, Shuffle::Up)).counts(SHUFFLE),
    lanes("shfl.sync.down.b32 d|p, a, b, c, e", |lanes, lane, own| shuffle(lanes, lane, own, Shuffle::Down)).counts(SHUFFLE),
    lanes("shfl.sync.bfly.b32 d|p, a, b, c, e", |lanes, lane, own| shuffle(lanes, lane, own, Shuffle::Bfly)).counts(SHUFFLE),
    lanes("shfl.sync.idx.b32 d|p, a, b, c, e", |lanes, lane, own| shuffle(lanes, lane, own, Shuffle::Idx)).counts(SHUFFLE),
    lanes("vote.sync.all.pred d, !a, e:32", |lanes, _, own| Ok((u64::from(ballot(lanes, own) == own.mask), false))),
    lanes("vote.sync.any.pred d, !a, e:32", |lanes, _, own| Ok((u64::from(ballot(lanes, own) != 0), false))),
    lanes("vote.sync.uni.pred d, !a, e:32", |lanes, _, own| {
        let set = ballot(lanes, own);
        Ok((u64::from(set == own.mask || set == 0), false))
    }),
    lanes("vote.sync.ballot.b32 d, !a:1, e:32", |lanes, _, own| Ok((ballot(lanes, own).into(), false))),
    lanes("match.any.sync.$word d:32, a, e:32", |lanes, _, own| Ok((matches(lanes, own).into(), false))),
    lanes("match.all.sync.$word d|p:32, a, e:32", |lanes, _, own| {
        let all = matches(lanes, own) == own.mask;
        Ok((if all { own.mask.into() } else { 0 }, all))
    }),
    lanes("redux.sync.add.u32|s32 d, a, e", |lanes, _, own| Ok(fold(lanes, own, |_, a, b, _| a.wrapping_add(b)))),
    lanes("redux.sync.min.u32|s32 d, a, e", |lanes, _, own| Ok(fold(lanes, own, int::min))),
    lanes("redux.sync.max.u32|s32 d, a, e", |lanes, _, own| Ok(fold(lanes, own, int::max))),
    lanes("redux.sync.and.b32 d, a, e", |lanes, _, own| Ok(fold(lanes, own, |_, a, b, _| a & b))),
    lanes("redux.sync.or.b32 d, a, e", |lanes, _, own| Ok(fold(lanes, own, |_, a, b, _| a | b))),
    lanes("redux.sync.xor.b32 d, a, e", |lanes, _, own| Ok(fold(lanes, own, |_, a, b, _| a ^ b))),

    warpgroup("setmaxnreg.inc.sync.aligned.u32 #", Joint::Registers { more: true }).check(|i, _| registers(i.form.literal)),
    warpgroup("setmaxnreg.dec.sync.aligned.u32 #", Joint::Registers { more: false }).check(|i, _| registers(i.form.literal)),
];

fn registers(count: u64) -> Result<(), String> {
    let is_known = matches!(count, 24..=256) && count.is_multiple_of(8);
    if is_known { Ok(()) } else { Err("a number of registers".to_owned()) }
}
