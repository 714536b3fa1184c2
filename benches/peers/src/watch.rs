//! [`Watch`]: whose time is counted.

use std::sync::LazyLock;
use std::time::{Duration, Instant};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Watch {
    /// The wall's.
    Wall,
    /// This thread's on a core: what others do on the machine counts less, and neither does waiting for a lock.
    Cpu,
}

impl Watch {
    /// Only the difference of two of them says something.
    #[must_use]
    pub fn now(self) -> Duration {
        match self {
            Self::Wall => START.elapsed(),
            Self::Cpu => on_core(),
        }
    }

    #[must_use]
    pub fn since(self, earlier: Duration) -> Duration {
        self.now().saturating_sub(earlier)
    }
}

fn on_core() -> Duration {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the pointer is to a timespec that lives until the call has returned.
    let failed = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    assert_eq!(failed, 0, "the system counts a thread's time");
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

static START: LazyLock<Instant> = LazyLock::new(Instant::now);
