//! The predictions for each way.

use super::super::Prediction;

/// Bytes per second over the link: 16 lanes of PCI Express 5.
const LINK: f64 = 63.0e9;

const TOUCH: &str = "The host touches its pages for the first time, and the system has to find and clear 65,536 of them. That takes \
                     longer than all copies together.";

pub(super) fn predictions() -> Vec<Prediction> {
    // Bytes of both arrays and of one, and the rate of a host core.
    const BOTH: f64 = 268.4e6;
    const ONE: f64 = BOTH / 2.0;
    const CORE: f64 = 10e9;
    let ms = |seconds: f64| seconds * 1e6;
    // The host fills both, and sums up one.
    let (fill, sum) = (BOTH / CORE, ONE / CORE);
    let over_link = (BOTH + ONE) / LINK;
    let all = |rung, seconds: f64| Prediction::microseconds(rung, ms(seconds));
    vec![
        Prediction::share_of_copy("copied", 1.0)
            .from("12 bytes per element in the GPU's memory")
            .why("A thread has two loads of 4 bytes in flight, as in `scalar` of the page on vector addition, and is timed once."),
        Prediction::rate("naive", 12.0 / 8.0 * LINK)
            .from("8 of 12 bytes over the link at 63 GB/s")
            .why("The link is not the limit. Each group of page faults stops warps until the driver has moved the pages."),
        Prediction::share_of_copy("initialised", 1.0)
            .from("12 bytes per element in the GPU's memory")
            .elsewhere("orders of magnitude faster than naive", "learning_cuda, GPU not named")
            .why("The pages are where the kernel runs, so it is an ordinary addition."),
        Prediction::share_of_copy("warp_page", 1.0)
            .from("12 bytes per element in the GPU's memory")
            .why("One warp per 64 KiB makes 15 warps per multiprocessor. They have too few bytes in flight."),
        Prediction::share_of_copy("prefetched", 1.0)
            .from("12 bytes per element in the GPU's memory")
            .why("Both arrays were moved before. A part of them is still in L2."),
        Prediction::rate("advised", 12.0 / 8.0 * LINK)
            .from("8 of 12 bytes over the link at 63 GB/s")
            .why("The advice changes where pages stay, not how they come: the kernel faults as `naive` does."),
        Prediction::rate("mapped", 12.0 / 8.0 * LINK)
            .from("8 bytes over the link in one direction, 4 in the other")
            .why("There are no faults, so this is close to the link. Small packets carry a little less than large copies."),
        Prediction::share_of_copy("copied_fill", 1.0)
            .from("8 bytes per element in the GPU's memory")
            .why("A kernel that only writes, timed once."),
        Prediction::share_of_copy("initialised_fill", 1.0)
            .from("8 bytes per element in the GPU's memory")
            .why("The first touch of a page is a fault, on the GPU too: the driver has to find and map it."),
        Prediction::time_over("warp_page_fill", "initialised_fill", 0.5)
            .from("half as many groups of faults, a guess")
            .elsewhere("shorter, and fewer groups of faults", "learning_cuda, GPU not named")
            .why("Fewer warps fault for the same page, so the driver handles fewer groups."),
        all("copied_all", fill + BOTH / CORE + ONE / CORE + sum)
            .from("fill, copies and sum of the host at 10 GB/s each")
            .why(TOUCH),
        all("naive_all", fill + over_link + sum).from("as `copied_all`, with the copies at 63 GB/s").why(TOUCH),
        all("initialised_all", ONE / LINK + sum)
            .from("`y` over the link, and the host's sum")
            .why("The host fills nothing, so this is the fast group. Faults on both sides are what is left."),
        all("warp_page_all", ONE / LINK + sum)
            .from("`y` over the link, and the host's sum")
            .why("As `initialised_all`, with fewer groups of faults."),
        all("prefetched_all", fill + over_link + sum)
            .from("as `copied_all`, with the copies at 63 GB/s")
            .why(TOUCH),
        all("advised_all", fill + over_link + sum)
            .from("as `copied_all`, with the copies at 63 GB/s")
            .why(TOUCH),
        all("mapped_all", fill + BOTH / LINK + sum)
            .from("fill, 8 bytes per element over the link, sum")
            .why(TOUCH),
    ]
}
