//! As much of `parking_lot` as tollgate uses, made of shuttle's locks.

use std::fmt;
use std::ops::{Deref, DerefMut};

/// A lock that shuttle sees.
pub struct Mutex<T>(shuttle::sync::Mutex<T>);

impl<T> Mutex<T> {
    pub const fn new(value: T) -> Self {
        Self(shuttle::sync::Mutex::new(value))
    }

    pub fn lock(&self) -> MutexGuard<'_, T> {
        MutexGuard {
            mutex: self,
            guard: Some(self.0.lock().expect("nobody panics with it")),
        }
    }

    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        let guard = self.0.try_lock().ok()?;
        Some(MutexGuard {
            mutex: self,
            guard: Some(guard),
        })
    }

    pub fn get_mut(&mut self) -> &mut T {
        self.0.get_mut().expect("nobody panics with it")
    }
}

impl<T: Default> Default for Mutex<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mutex").finish_non_exhaustive()
    }
}

pub struct MutexGuard<'a, T> {
    mutex: &'a Mutex<T>,
    /// `None` only while it is unlocked.
    guard: Option<shuttle::sync::MutexGuard<'a, T>>,
}

impl<T> MutexGuard<'_, T> {
    pub fn unlocked<U>(this: &mut Self, run: impl FnOnce() -> U) -> U {
        this.guard = None;
        let outcome = run();
        this.guard = Some(this.mutex.0.lock().expect("nobody panics with it"));
        outcome
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.guard.as_ref().expect("it is locked")
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.guard.as_mut().expect("it is locked")
    }
}
