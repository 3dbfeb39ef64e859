//! What a bench that goes through its points in rounds needs from its caller.

/// How far a run is.
#[derive(Debug, Clone, Copy)]
pub struct Progress<'a, P> {
    /// Samples that are done.
    pub done: u64,
    /// Samples in all.
    pub total: u64,
    /// The point that is measured now.
    pub point: &'a P,
}

/// Order, interruption and display.
pub struct Company<'a, P> {
    /// Puts indices into random order, by the seed of the plan.
    pub shuffle: &'a mut dyn FnMut(&mut [usize]),
    /// Whether the caller wants no more.
    pub stop: &'a (dyn Fn() -> bool + Sync),
    /// Told before each sample.
    pub tell: &'a mut dyn FnMut(&Progress<'_, P>),
}

impl<P> std::fmt::Debug for Company<'_, P> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Company").finish_non_exhaustive()
    }
}
