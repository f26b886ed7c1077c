//! Why targets are missed, written by hand from profiles: `FERROWARP_PROFILE` and the step `missed` of the bundle's `run.sh`.

/// The report's files, the point as the page prints it, and the reason in a sentence or two.
const REASONS: &[(&str, &str, &str)] = &[];

/// The reason for a missed point, if one was found.
pub fn reason(stem: &str, point: &str) -> Option<&'static str> {
    REASONS.iter().find(|(of, name, _)| (*of, *name) == (stem, point)).map(|(.., reason)| *reason)
}
