//! Asynchronous copies.

use crate::exec::counts::access;
use crate::exec::row::{Counts, Row, act};
use crate::exec::thread::Cx;
use crate::instr::{Instr, SINK};

const ASYNC: Counts = Counts::Deeds(access::copy);
const BULK: Counts = Counts::Deeds(access::bulk_copy);
const LOAD: Counts = Counts::Deeds(access::tensor_load);
const STORE: Counts = Counts::Deeds(access::tensor_store);

fn copy(cx: &mut Cx<'_>, i: &Instr) -> crate::exec::grid::Exec {
    cx.copy(i, (i.a != SINK).then_some(i.a))
}

#[rustfmt::skip]
pub(super) const ROWS: &[Row] = &[
    act("cp.async.ca.shared.global.?L2::64B|L2::128B|L2::256B [shared], [global], #, a:32?", copy).counts(ASYNC)
        .check(|i, _| size(i, matches!(i.form.literal, 4 | 8 | 16))),
    act("cp.async.cg.shared.global.?L2::64B|L2::128B|L2::256B [shared], [global], #, a:32?", copy).counts(ASYNC)
        .check(|i, _| size(i, i.form.literal == 16)),
    act("cp.async.commit_group", |cx, _| { cx.copies.commit(); Ok(()) }),
    act("cp.async.wait_group a:32", |cx, i| { let left = cx.value(i.a)?; cx.wait_for_copies(left) }),
    act("cp.async.wait_all", |cx, _| { cx.copies.commit(); cx.wait_for_copies(0) }),

    act("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes \
         [shared::cluster], [global], a:32, [shared::cluster]", |cx, i| cx.start_bulk_copy(i)).counts(BULK),
    act("cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [shared], [global], a:32, [shared]",
        |cx, i| cx.start_bulk_copy(i)).counts(BULK),
    act("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes \
         [shared::cluster], [shared], a:32, [shared::cluster]", |cx, i| cx.start_bulk_copy(i)).counts(BULK),
    act("cp.async.bulk.global.shared::cta.bulk_group [global], [shared], a:32", |cx, i| cx.start_bulk_store(i))
        .counts(Counts::Deeds(access::bulk_store)),
    act("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [global], [shared], a:32", |cx, i| cx.start_bulk_add(i))
        .counts(Counts::Deeds(access::bulk_store)),
    act("cp.async.bulk.commit_group", |cx, _| { cx.stores.commit(); Ok(()) }),
    act("cp.async.bulk.wait_group a:32", |cx, i| { let left = cx.value(i.a)?; cx.wait_for_bulk_stores(left, false) }),
    act("cp.async.bulk.wait_group.read a:32", |cx, i| { let left = cx.value(i.a)?; cx.wait_for_bulk_stores(left, true) }),
    act("st.async.?weak.shared::cluster.mbarrier::complete_tx::bytes.?$vector.$memory \
         [shared::cluster], A*v, [shared::cluster]", |cx, i| cx.start_store(i)).counts(Counts::Deeds(access::store_async))
        .check(|i, _| match (i.form.ty.bits, i.form.count) {
            (32, 0 | 2 | 4) | (64, 0 | 2) => Ok(()),
            _ => Err("a type or vector".to_owned()),
        }),

    act("cp.async.bulk.tensor.$rank.shared::cluster|shared::cta.global.?tile.mbarrier::complete_tx::bytes \
         [.], [map], [.]", |cx, i| cx.start_tensor_load(i, None)).counts(LOAD),
    act("cp.async.bulk.tensor.$rank.shared::cluster|shared::cta.global.?tile.mbarrier::complete_tx::bytes.L2::cache_hint \
         [.], [map], [.], b:64", |cx, i| cx.start_tensor_load(i, None)).counts(LOAD),
    act("cp.async.bulk.tensor.$rank.shared::cluster.global.?tile.mbarrier::complete_tx::bytes.multicast::cluster \
         [.], [map], [.], a:16", |cx, i| cx.start_tensor_load(i, Some(i.a))).counts(LOAD),
    act("cp.async.bulk.tensor.$rank.shared::cluster.global.?tile.mbarrier::complete_tx::bytes.multicast::cluster\
         .L2::cache_hint [.], [map], [.], a:16, b:64", |cx, i| cx.start_tensor_load(i, Some(i.a))).counts(LOAD),
    act("cp.async.bulk.tensor.$rank.global.shared::cta.?tile.bulk_group [map], [shared]", |cx, i| cx.start_tensor_store(i))
        .counts(STORE),
    act("cp.async.bulk.tensor.$rank.global.shared::cta.?tile.bulk_group.L2::cache_hint [map], [shared], b:64",
        |cx, i| cx.start_tensor_store(i)).counts(STORE),
    act("cp.async.bulk.prefetch.tensor.$rank.L2.global.?tile [map]", |cx, i| cx.tile(i, 0).map(drop)),
    act("prefetch.?param|const.tensormap [.]", |cx, i| cx.tensor_map(&i.more().at[0]).map(drop)),
];

fn size(i: &Instr, is_known: bool) -> Result<(), String> {
    if is_known { Ok(()) } else { Err(format!("a copy of {} bytes", i.form.literal)) }
}
