//! What features keep for a thread or a block: at most one value of each type, which the feature defines.

use core::any::Any;
use core::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// A value that a feature keeps.
pub(crate) trait State: Any {
    /// Ends the thread's value when the thread returns. It may end the thread with a fault.
    fn end(self: Box<Self>) {}
}

/// The values of a thread.
#[derive(Default)]
pub(crate) struct States(Vec<Box<dyn State>>);

impl States {
    fn get<T: State>(&mut self) -> Option<&mut T> {
        self.0.iter_mut().find_map(|state| (&mut **state as &mut dyn Any).downcast_mut())
    }

    /// Returns the value of this type, new at first.
    pub fn of<T: State + Default>(&mut self) -> &mut T {
        if self.get::<T>().is_none() {
            self.0.push(Box::<T>::default());
        }
        self.get().expect("it was just made")
    }

    /// Ends all.
    pub fn end(self) {
        self.0.into_iter().for_each(|state| state.end());
    }
}

/// The values of a block, which its threads share. The lock orders threads that use them.
#[derive(Default)]
pub(crate) struct BlockStates {
    states: Mutex<States>,
    /// Whether there is one.
    any: AtomicBool,
}

impl BlockStates {
    /// Hands the value of this type to `f`, new at first.
    pub fn with<T: State + Default, R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
        self.any.store(true, Ordering::Relaxed);
        f(self.states.lock().unwrap_or_else(PoisonError::into_inner).of())
    }

    /// Hands the value to `f`, if the block has one.
    pub fn read<T: State, R>(&self, f: impl FnOnce(&T) -> Option<R>) -> Option<R> {
        if !self.any.load(Ordering::Relaxed) {
            return None;
        }
        f(self.states.lock().unwrap_or_else(PoisonError::into_inner).get()?)
    }

    /// Forgets all, for another block.
    pub fn clear(&self) {
        if self.any.swap(false, Ordering::Relaxed) {
            *self.states.lock().unwrap_or_else(PoisonError::into_inner) = States::default();
        }
    }
}
