//! Prints counts, one line per kind that occurred.

use core::fmt;

use super::{Collectives, Counts, Flop, GlobalRequests, Requests, SharedRequests};

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Counts {
            instructions,
            branches,
            flop,
            global,
            shared,
            local,
            constant,
            cluster,
            bulk,
            collectives,
        } = self;
        let mut lines = Vec::new();
        if instructions.warps > 0 {
            let (threads, part) = (32.0 * self.efficiency(), 100.0 * self.efficiency());
            let warps = instructions.warps;
            lines.push(format!("instructions: {warps} by warps, by {threads:.1} threads each, {part:.1} %"));
        }
        if branches.executed > 0 {
            lines.push(format!("branches: {}, {} divergent", branches.executed, branches.divergent));
        }
        if *flop != Flop::default() {
            let Flop { f32, f64, tensor, functions } = flop;
            let each = [("f32", f32), ("f64", f64), ("tensor cores", tensor), ("functions", functions)];
            let each = each.iter().filter(|(_, count)| **count > 0);
            let each: Vec<String> = each.map(|(what, count)| format!("{count} of {what}")).collect();
            lines.push(format!("operations on floats: {}", each.join(", ")));
        }
        let ways = ["loads", "stores", "atomics", "asynchronous copies"];
        let of_global = [global.loads, global.stores, global.atomics, global.copies];
        lines.extend(ways.iter().zip(of_global).filter_map(|(way, of)| global_line(way, of)));
        let of_shared = [shared.loads, shared.stores, shared.atomics, shared.copies];
        lines.extend(ways.iter().zip(of_shared).filter_map(|(way, of)| shared_line(way, of)));
        let others = [("local loads", local.loads), ("local stores", local.stores), ("cluster", *cluster)];
        lines.extend(others.iter().filter_map(|(what, of)| line(what, *of)));
        if constant.requests > 0 {
            lines.push(format!("constant loads: {} requests, {} passes", constant.requests, constant.passes));
        }
        if bulk.loads > 0 {
            lines.push(format!("bulk loads: {}, {} bytes", bulk.loads, bulk.loaded_bytes));
        }
        if bulk.stores > 0 {
            lines.push(format!("bulk stores: {}, {} bytes", bulk.stores, bulk.stored_bytes));
        }
        let collectives = named(collectives).into_iter().filter(|&(_, count)| count > 0);
        lines.extend(collectives.map(|(name, count)| format!("{name}: {count}")));
        f.write_str(&if lines.is_empty() { "nothing".to_owned() } else { lines.join("\n") })
    }
}

fn global_line(way: &str, of: GlobalRequests) -> Option<String> {
    let GlobalRequests { requests, sectors, lines, ideal_sectors, bytes } = of;
    let each = of.sectors_per_request();
    (requests > 0).then(|| {
        format!(
            "global {way}: {requests} requests, {sectors} sectors ({each:.2} a request, ideally {ideal_sectors} in all), \
             {lines} lines, {bytes} bytes"
        )
    })
}

fn shared_line(way: &str, of: SharedRequests) -> Option<String> {
    let SharedRequests { requests, wavefronts, bytes, .. } = of;
    let conflicts = of.conflicts();
    (requests > 0).then(|| {
        format!(
            "shared {way}: {requests} requests, {wavefronts} wavefronts, {conflicts} conflicts, {bytes} bytes"
        )
    })
}

fn line(what: &str, Requests { requests, bytes }: Requests) -> Option<String> {
    (requests > 0).then(|| format!("{what}: {requests} requests, {bytes} bytes"))
}

fn named(of: &Collectives) -> [(&'static str, u64); 7] {
    [
        ("shuffles", of.shuffles),
        ("votes", of.votes),
        ("barriers of warps", of.warp_barriers),
        ("barriers of blocks", of.barriers),
        ("barriers of clusters", of.cluster_barriers),
        ("operations of mbarriers", of.mbarriers),
        ("matrix instructions", of.matrices),
    ]
}

#[cfg(test)]
mod tests {
    use super::super::{Branches, Global, Instructions, Shared};
    use super::*;

    #[test]
    fn only_what_there_was_is_told() {
        assert_eq!(Counts::default().to_string(), "nothing");
        let counts = Counts {
            instructions: Instructions { warps: 10, threads: 240, threads_on: 240 },
            branches: Branches { executed: 3, divergent: 1 },
            flop: Flop { f32: 96, functions: 32, ..Flop::default() },
            global: Global {
                loads: GlobalRequests { requests: 2, sectors: 10, lines: 4, ideal_sectors: 8, bytes: 256 },
                ..Global::default()
            },
            shared: Shared {
                stores: SharedRequests { requests: 1, wavefronts: 32, ideal_wavefronts: 1, bytes: 128 },
                ..Shared::default()
            },
            cluster: Requests { requests: 1, bytes: 4 },
            collectives: Collectives { shuffles: 5, ..Collectives::default() },
            ..Counts::default()
        };
        assert_eq!(
            counts.to_string(),
            "instructions: 10 by warps, by 24.0 threads each, 75.0 %\n\
             branches: 3, 1 divergent\n\
             operations on floats: 96 of f32, 32 of functions\n\
             global loads: 2 requests, 10 sectors (5.00 a request, ideally 8 in all), 4 lines, 256 bytes\n\
             shared stores: 1 requests, 32 wavefronts, 31 conflicts, 128 bytes\n\
             cluster: 1 requests, 4 bytes\n\
             shuffles: 5"
        );
    }
}
