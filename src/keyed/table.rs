//! The clients of one shard: a hash table of small pages.
//!
//! The simplest idea is the standard one, an array that is twice as large when it is full, and it breaks on the call that
//! fills it: that call moves everybody. With ten million clients that is a stall of milliseconds for one of them, and
//! whoever floods a service decides when. So a table here is pages of a few hundred slots, each with its own array: a page
//! that is full gets a third more room, and with every so many clients one page is split into two (linear hashing). No call
//! does more than that.
//!
//! A slot holds part of the hash, the key and the state side by side, and a search goes from slot to slot: what it reads
//! lies on one cache line, mostly, where a table with a directory of tags reads two. A client that is removed leaves no
//! mark: those after it move up.

use std::iter;
use std::mem;
use std::num::NonZeroU32;

/// Clients by the hash of their key.
#[repr(C)]
pub(super) struct Table<K, S> {
    /// The first page; small stores have no other.
    first: Page<K, S>,
    more: Box<[Page<K, S>]>,
    len: usize,
}

struct Page<K, S> {
    groups: Box<[Group<K, S>]>,
    len: usize,
}

/// Four slots, which begin with a cache line: so a slot of 32 bytes (a `u64` and a bucket) never lies on two lines, one of
/// 48 (a `String` and a bucket) half the time, and no room is lost between them.
#[repr(align(64))]
struct Group<K, S>([Option<Client<K, S>>; SLOTS_PER_GROUP]);

pub(super) struct Client<K, S> {
    /// The low bits of the key's hash, which say where in a page it belongs.
    tag: NonZeroU32,
    pub(super) key: K,
    pub(super) state: S,
}

/// Where a client is, until the table changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(super) struct Place {
    page: usize,
    slot: usize,
}

/// What a hand that went over some slots has found.
#[derive(Clone, Copy, Default)]
pub(super) struct Swept {
    /// How many clients it looked at.
    pub(super) seen: usize,
    /// How many of them it has removed.
    pub(super) removed: usize,
}

impl<K, S> Table<K, S> {
    pub(super) fn new() -> Self {
        Self {
            first: Page::new(),
            more: Box::default(),
            len: 0,
        }
    }

    pub(super) const fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub(super) fn find(&self, hash: u64, is: impl Fn(&K) -> bool) -> Option<&Client<K, S>> {
        let page = self.page(self.page_of(hash))?;
        page.client(page.find(tag_of(hash), is)?)
    }

    #[inline]
    pub(super) fn find_mut(
        &mut self,
        hash: u64,
        is: impl Fn(&K) -> bool,
    ) -> Option<&mut Client<K, S>> {
        let page = self.page_mut(self.page_of(hash))?;
        page.slot_mut(page.find(tag_of(hash), is)?)?.as_mut()
    }

    /// Adds a client who is not there yet. `rehash` tells the hash of a key that is.
    pub(super) fn insert(&mut self, hash: u64, key: K, state: S, rehash: impl Fn(&K) -> u64) {
        if self.len >= CLIENTS_PER_PAGE * (1 + self.more.len()) {
            self.split(rehash);
        }
        let tag = tag_of(hash);
        if let Some(page) = self.page_mut(self.page_of(hash)) {
            page.add(Client { tag, key, state });
            self.len += 1;
        }
    }

    pub(super) fn remove(&mut self, hash: u64, is: impl Fn(&K) -> bool) -> bool {
        let page = self.page_of(hash);
        let slot = self.page(page).and_then(|page| page.find(tag_of(hash), is));
        slot.is_some_and(|slot| self.remove_at(Place { page, slot }))
    }

    /// Removes the client in this place, if there is one.
    pub(super) fn remove_at(&mut self, Place { page, slot }: Place) -> bool {
        let page = self.page_mut(page);
        let was_there = page.is_some_and(|page| page.remove(slot));
        self.len -= usize::from(was_there);
        was_there
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Client<K, S>> {
        let pages = iter::once(&self.first).chain(&*self.more);
        pages.flat_map(|page| {
            page.groups
                .iter()
                .flat_map(|group| group.0.iter().flatten())
        })
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Client<K, S>> {
        let pages = iter::once(&mut self.first).chain(&mut *self.more);
        pages.flat_map(|page| {
            page.groups
                .iter_mut()
                .flat_map(|group| group.0.iter_mut().flatten())
        })
    }

    /// Moves the hand over up to `slots` slots and `most` clients, at most once round, and removes those that `goes`.
    /// A page that it leaves next to empty gives back its room.
    pub(super) fn sweep(
        &mut self,
        hand: &mut Place,
        slots: usize,
        most: usize,
        mut goes: impl FnMut(&Client<K, S>) -> bool,
    ) -> Swept {
        let mut swept = Swept::default();
        // Each removal moves others up, to be looked at in their turn: so it is not a step.
        // A table that holds anybody has a group of slots at least: so a few steps are not a round, and need no counting.
        let mut steps = if slots <= SLOTS_PER_GROUP {
            slots
        } else {
            slots.min(self.slots())
        };
        while steps > 0 && swept.seen < most {
            match self.slot(*hand) {
                Some(Some(client)) => {
                    swept.seen += 1;
                    if goes(client) {
                        self.remove_at(*hand);
                        swept.removed += 1;
                        continue;
                    }
                }
                Some(None) => {}
                // Nobody is left, and there may be no slot at all.
                None if self.len == 0 => break,
                None => {
                    *hand = self.turn_page(*hand);
                    continue;
                }
            }
            hand.slot += 1;
            steps -= 1;
        }
        swept
    }

    /// The clients from a place on, once round, each with its place.
    pub(super) fn clients_from(&self, hand: Place) -> impl Iterator<Item = (Place, &Client<K, S>)> {
        let pages = 1 + self.more.len();
        let others = (1..=pages).map(move |step| (hand.page + step) % pages);
        iter::once((hand.page, hand.slot))
            .chain(others.map(|page| (page, 0)))
            .filter_map(|(index, from)| Some((index, self.page(index)?, from)))
            .flat_map(|(index, page, from)| {
                (from..page.slots()).filter_map(move |slot| {
                    let place = Place { page: index, slot };
                    Some((place, page.client(slot)?))
                })
            })
            .take(self.len)
    }

    /// Removes all that `goes`, and gives back the room; says how many.
    pub(super) fn remove_all(&mut self, mut goes: impl FnMut(&Client<K, S>) -> bool) -> usize {
        let before = self.len;
        for page in iter::once(&mut self.first).chain(&mut *self.more) {
            page.remove_all(&mut goes);
        }
        self.len = iter::once(&self.first)
            .chain(&*self.more)
            .map(|page| page.len)
            .sum();
        if self.len < before {
            while self.has_pages_to_spare() {
                self.join();
            }
            for page in iter::once(&mut self.first).chain(&mut *self.more) {
                page.give_back();
            }
        }
        before - self.len
    }

    fn slots(&self) -> usize {
        self.first.slots() + self.more.iter().map(Page::slots).sum::<usize>()
    }

    /// The hand has come to the end of a page, or to one that is no more: where it goes on.
    fn turn_page(&mut self, hand: Place) -> Place {
        if let Some(page) = self.page_mut(hand.page) {
            page.give_back();
        }
        // Not onto a page that the hand has left behind: this round would not see those who move there.
        let last = self.more.len();
        let is_seen = last <= hand.page;
        if self.has_pages_to_spare() && (is_seen || buddy_of(last) > hand.page) {
            self.join();
        }
        Place {
            page: if hand.page < self.more.len() {
                hand.page + 1
            } else {
                0
            },
            slot: 0,
        }
    }

    #[inline]
    fn page_of(&self, hash: u64) -> usize {
        if self.more.is_empty() {
            return 0;
        }
        page_among(1 + self.more.len(), hash)
    }

    #[inline]
    fn page(&self, index: usize) -> Option<&Page<K, S>> {
        match index.checked_sub(1) {
            None => Some(&self.first),
            Some(index) => self.more.get(index),
        }
    }

    #[inline]
    fn page_mut(&mut self, index: usize) -> Option<&mut Page<K, S>> {
        match index.checked_sub(1) {
            None => Some(&mut self.first),
            Some(index) => self.more.get_mut(index),
        }
    }

    fn slot(&self, place: Place) -> Option<&Option<Client<K, S>>> {
        self.page(place.page)?.slot(place.slot)
    }

    /// Makes one page more, of those clients of the page that it splits off from who belong there now.
    #[cold]
    fn split(&mut self, rehash: impl Fn(&K) -> u64) {
        let new = 1 + self.more.len();
        let Some(old) = self.page_mut(buddy_of(new)) else {
            return;
        };
        let clients = mem::replace(old, Page::new());
        let (mut stay, mut go) = (Vec::new(), Vec::new());
        for client in clients.into_clients() {
            match page_among(new + 1, rehash(&client.key)) == new {
                true => go.push(client),
                false => stay.push(client),
            }
        }
        *old = Page::of(stay);
        let more = mem::take(&mut self.more).into_iter();
        self.more = more.chain([Page::of(go)]).collect();
    }

    fn has_pages_to_spare(&self) -> bool {
        !self.more.is_empty() && self.len < CLIENTS_PER_PAGE / 4 * self.more.len()
    }

    /// Makes one page less: the last joins the one that it was split off from.
    fn join(&mut self) {
        let last = self.more.len();
        let mut more = mem::take(&mut self.more).into_vec();
        let page = more.pop();
        self.more = more.into();
        if let (Some(page), Some(buddy)) = (page, self.page_mut(buddy_of(last))) {
            for client in page.into_clients() {
                buddy.add(client);
            }
        }
    }
}

impl<K, S> Page<K, S> {
    fn new() -> Self {
        Self {
            groups: Box::default(),
            len: 0,
        }
    }

    fn of(clients: Vec<Client<K, S>>) -> Self {
        let mut page = Self::new();
        page.resize(groups_for(clients.len()));
        for client in clients {
            page.add(client);
        }
        page
    }

    fn into_clients(self) -> impl Iterator<Item = Client<K, S>> {
        self.groups.into_iter().flat_map(|group| group.0).flatten()
    }

    #[inline]
    fn slots(&self) -> usize {
        self.groups.len() * SLOTS_PER_GROUP
    }

    #[inline]
    fn slot(&self, at: usize) -> Option<&Option<Client<K, S>>> {
        let group = self.groups.get(at / SLOTS_PER_GROUP)?;
        Some(&group.0[at % SLOTS_PER_GROUP])
    }

    #[inline]
    fn slot_mut(&mut self, at: usize) -> Option<&mut Option<Client<K, S>>> {
        let group = self.groups.get_mut(at / SLOTS_PER_GROUP)?;
        Some(&mut group.0[at % SLOTS_PER_GROUP])
    }

    #[inline]
    fn client(&self, at: usize) -> Option<&Client<K, S>> {
        self.slot(at)?.as_ref()
    }

    #[inline]
    fn find(&self, tag: NonZeroU32, is: impl Fn(&K) -> bool) -> Option<usize> {
        let slots = self.slots();
        let mut at = home(tag, slots);
        // There is always an empty slot, where the search ends.
        loop {
            let client = self.client(at)?;
            if client.tag == tag && is(&client.key) {
                return Some(at);
            }
            at = next(at, slots);
        }
    }

    fn add(&mut self, client: Client<K, S>) {
        if self.len >= most_in(self.slots()) {
            self.resize(groups_for(self.len + 1));
        }
        self.put(client);
        self.len += 1;
    }

    /// Puts a client into the first empty slot from its home on; there is one.
    fn put(&mut self, client: Client<K, S>) {
        let slots = self.slots();
        let mut at = home(client.tag, slots);
        while self.client(at).is_some() {
            at = next(at, slots);
        }
        if let Some(slot) = self.slot_mut(at) {
            *slot = Some(client);
        }
    }

    fn resize(&mut self, groups: usize) {
        let empty = iter::repeat_with(|| Group([const { None }; SLOTS_PER_GROUP]));
        let empty = Self {
            groups: empty.take(groups).collect(),
            len: self.len,
        };
        let old = mem::replace(self, empty);
        for client in old.into_clients() {
            self.put(client);
        }
    }

    /// Gives back room that a past crowd needed.
    fn give_back(&mut self) {
        let groups = groups_for(self.len);
        if self.groups.len() > 4 * groups {
            self.resize(groups);
        }
    }

    fn remove(&mut self, slot: usize) -> bool {
        let slots = self.slots();
        let removed = self.slot_mut(slot).and_then(Option::take);
        if removed.is_none() {
            return false;
        }
        self.len -= 1;
        // Whoever stands after the gap, up to the next empty slot, moves into it unless its home lies behind it.
        let mut gap = slot;
        let mut at = next(slot, slots);
        while let Some(client) = self.client(at) {
            let from_home = distance(home(client.tag, slots), at, slots);
            if from_home >= distance(gap, at, slots) {
                let moved = self.slot_mut(at).and_then(Option::take);
                if let Some(slot) = self.slot_mut(gap) {
                    *slot = moved;
                }
                gap = at;
            }
            at = next(at, slots);
        }
        true
    }

    fn remove_all(&mut self, mut goes: impl FnMut(&Client<K, S>) -> bool) {
        let mut at = 0;
        while let Some(client) = self.slot(at) {
            match client {
                // Another may have moved up into its slot.
                Some(client) if goes(client) => {
                    self.remove(at);
                }
                _ => at += 1,
            }
        }
    }
}

/// Which of so many pages a hash belongs to: of a power of two of them, and where there are not so many yet, the one that the
/// missing one will be split off from.
#[inline]
const fn page_among(pages: usize, hash: u64) -> usize {
    let power = pages.next_power_of_two();
    // Bits that choose neither the shard nor the line of the table of denials.
    let page = (hash >> 43) as usize & (power - 1);
    if page < pages { page } else { buddy_of(page) }
}

/// The page that this one, not the first, is split off from.
#[inline]
const fn buddy_of(page: usize) -> usize {
    page ^ (1 << page.ilog2())
}

#[inline]
fn tag_of(hash: u64) -> NonZeroU32 {
    NonZeroU32::MIN | hash as u32
}

/// Where a tag belongs among so many slots.
#[inline]
const fn home(tag: NonZeroU32, slots: usize) -> usize {
    ((tag.get() as u64 * slots as u64) >> 32) as usize
}

#[inline]
const fn next(at: usize, slots: usize) -> usize {
    if at + 1 < slots { at + 1 } else { 0 }
}

/// How many steps lead from one slot to another.
#[inline]
const fn distance(from: usize, to: usize, slots: usize) -> usize {
    if to >= from {
        to - from
    } else {
        to + slots - from
    }
}

/// The most clients that so many slots take: four of five, so that searches are short, and never all.
const fn most_in(slots: usize) -> usize {
    slots * 4 / 5
}

/// How many groups a page with so many clients is given: three of five slots are taken then, and it grows when four are.
const fn groups_for(clients: usize) -> usize {
    if clients == 0 {
        0
    } else {
        clients * 5 / (3 * SLOTS_PER_GROUP) + 1
    }
}

const SLOTS_PER_GROUP: usize = 4;

/// Above so many clients a page, on average, one is split. A split moves a few hundred clients, which takes tens of
/// microseconds. (The tests of this folder want many small pages.)
const CLIENTS_PER_PAGE: usize = if cfg!(test) { 16 } else { 512 };

#[cfg(all(test, not(loom)))]
mod tests {
    use std::collections::HashMap;
    use std::hash::BuildHasher;

    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Copy, Debug)]
    enum Step {
        Insert(u16),
        Remove(u16),
        Change(u16),
        /// Over so many slots, whatever is a multiple of this goes.
        Sweep(usize, u16),
        RemoveAll(u16),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let key = 0..400u16;
        let step = prop_oneof![
            12 => key.clone().prop_map(Step::Insert),
            3 => key.clone().prop_map(Step::Remove),
            2 => key.prop_map(Step::Change),
            4 => (0..9usize, 2..6u16).prop_map(|(slots, of)| Step::Sweep(slots, of)),
            1 => (0..200usize, 1..4u16).prop_map(|(slots, of)| Step::Sweep(slots, of)),
            1 => (1..20u16).prop_map(Step::RemoveAll),
        ];
        prop::collection::vec(step, 1..600)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(600))]

        /// It holds what a map of the standard library holds, whether hashes are spread or alike.
        #[test]
        fn a_table_is_a_map(steps in steps(), bits in prop_oneof![Just(64u32), Just(50), Just(3), Just(0)]) {
            let hasher = foldhash::fast::FixedState::with_seed(7);
            let hash = |key: &u16| hasher.hash_one(key).checked_shr(64 - bits).unwrap_or(0);
            let mut table: Table<u16, u32> = Table::new();
            let mut model: HashMap<u16, u32> = HashMap::new();
            let mut hand = Place::default();
            for (time, step) in (0..).zip(steps) {
                match step {
                    Step::Insert(key) => {
                        if let std::collections::hash_map::Entry::Vacant(place) = model.entry(key) {
                            place.insert(time);
                            table.insert(hash(&key), key, time, hash);
                        }
                    }
                    Step::Remove(key) => {
                        let was_there = table.remove(hash(&key), |known| *known == key);
                        prop_assert_eq!(was_there, model.remove(&key).is_some());
                    }
                    Step::Change(key) => {
                        let found = table.find_mut(hash(&key), |known| *known == key);
                        let expected = model.get_mut(&key);
                        prop_assert_eq!(found.is_some(), expected.is_some());
                        if let (Some(found), Some(expected)) = (found, expected) {
                            (found.state, *expected) = (time, time);
                        }
                    }
                    Step::Sweep(slots, of) => {
                        let goes = |state: &u32| state % u32::from(of) == 0;
                        let mut gone = Vec::new();
                        let swept = table.sweep(&mut hand, slots, 7, |client| {
                            if goes(&client.state) {
                                gone.push(client.state);
                            }
                            goes(&client.state)
                        });
                        prop_assert_eq!(swept.removed, gone.len());
                        prop_assert!(swept.seen <= 7);
                        model.retain(|_, state| !gone.contains(state));
                    }
                    Step::RemoveAll(of) => {
                        let goes = |state: &u32| state % u32::from(of) == 0;
                        let before = model.len();
                        model.retain(|_, state| !goes(state));
                        prop_assert_eq!(table.remove_all(|client| goes(&client.state)), before - model.len());
                    }
                }
                prop_assert_eq!(table.len(), model.len());
            }
            for key in 0..400 {
                let found = table.find(hash(&key), |known| *known == key);
                prop_assert_eq!(found.map(|client| client.state), model.get(&key).copied());
            }
            let mut all: Vec<_> = table.iter().map(|client| (client.key, client.state)).collect();
            let walked = table.clients_from(hand).map(|(_, client)| (client.key, client.state));
            let mut walked: Vec<_> = walked.collect();
            let mut expected: Vec<_> = model.into_iter().collect();
            for list in [&mut all, &mut walked, &mut expected] {
                list.sort_unstable();
            }
            prop_assert_eq!(&all, &expected);
            prop_assert_eq!(&walked, &expected);
        }
    }

    #[test]
    fn a_hand_that_goes_round_sees_everybody_and_gives_back_the_room() {
        let hasher = foldhash::fast::FixedState::with_seed(7);
        let hash = |key: &u32| hasher.hash_one(key);
        let mut table: Table<u32, u32> = Table::new();
        for key in 0..10_000 {
            table.insert(hash(&key), key, key, hash);
        }
        assert!(table.more.len() > 500);
        assert!(table.slots() < 20_000);
        let mut hand = Place::default();
        let swept = table.sweep(&mut hand, usize::MAX, usize::MAX, |client| {
            client.state % 1_000 != 0
        });
        assert_eq!((swept.removed, table.len()), (9_990, 10));
        while table.more.len() > 2 {
            let before = table.more.len();
            table.sweep(&mut hand, usize::MAX, usize::MAX, |_| false);
            assert!(table.more.len() < before);
        }
        assert!(table.slots() < 200);
        assert_eq!(
            table
                .sweep(&mut hand, usize::MAX, usize::MAX, |_| true)
                .removed,
            10
        );
        assert_eq!(
            table
                .sweep(&mut hand, usize::MAX, usize::MAX, |_| true)
                .seen,
            0
        );
    }
}
