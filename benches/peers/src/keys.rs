//! The clients: who they are, and in which order they call.

use std::hash::Hash;

use tollgate::keyed::Lookup;

/// A key that the workloads can make: random-looking, the same in every run.
pub trait Key: Clone + Eq + Hash + Send + Sync + 'static {
    /// What tollgate looks it up by.
    type Borrowed: Lookup<Self> + ?Sized;

    /// How it is called in the tables.
    const NAME: &'static str;

    /// The key of the client of that number.
    fn of(client: u64) -> Self;

    fn borrowed(&self) -> &Self::Borrowed;
}

impl Key for u64 {
    type Borrowed = Self;

    const NAME: &'static str = "u64";

    fn of(client: u64) -> Self {
        scrambled(client)
    }

    fn borrowed(&self) -> &Self {
        self
    }
}

/// 24 bytes.
impl Key for String {
    type Borrowed = str;

    const NAME: &'static str = "String";

    fn of(client: u64) -> Self {
        format!("client-0{:016x}", scrambled(client))
    }

    fn borrowed(&self) -> &str {
        self
    }
}

/// For limiters with a single state.
impl Key for () {
    type Borrowed = Self;

    const NAME: &'static str = "no key";

    fn of(_client: u64) -> Self {}

    fn borrowed(&self) -> &Self {
        self
    }
}

/// Clients `0..population` in random order, each once.
#[must_use]
pub fn shuffled(population: u64) -> Vec<u64> {
    let mut clients: Vec<u64> = (0..population).collect();
    let mut random = SplitMix(0x5EED);
    for i in (1..clients.len()).rev() {
        let other = random.below(i as u64 + 1) as usize;
        clients.swap(i, other);
    }
    clients
}

/// `calls` draws from clients `0..population`, the k-th most frequent k times rarer than the first (Zipf, exponent 1).
#[must_use]
pub fn zipf(population: u64, calls: usize) -> Vec<u64> {
    let mut sum = 0.0;
    let up_to: Vec<f64> = (1..=population)
        .map(|rank| {
            sum += 1.0 / rank as f64;
            sum
        })
        .collect();
    // Frequent clients are not neighbours in the order in which the store was filled.
    let by_rank = shuffled(population);
    let mut random = SplitMix(0x21BF);
    (0..calls)
        .map(|_| {
            let at = random.unit() * sum;
            let rank = up_to.partition_point(|&end| end <= at);
            by_rank[rank.min(by_rank.len() - 1)]
        })
        .collect()
}

/// splitmix64: no dependency, the same numbers everywhere.
struct SplitMix(u64);

impl SplitMix {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(GOLDEN);
        mixed(self.0)
    }

    fn below(&mut self, end: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(end)) >> 64) as u64
    }

    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// A bijection: no two clients share a key.
const fn scrambled(client: u64) -> u64 {
    mixed(client.wrapping_mul(GOLDEN).wrapping_add(GOLDEN))
}

const fn mixed(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;
