//! Keys of two parts: a route and a client, looked up without making a key, each route with its own weight.

use std::hash::BuildHasher;

use tollgate::keyed::{Pair, RandomState};
use tollgate::{Keyed, Plans, Quota, Timestamp, TokenBucket};

const NOW: Timestamp = Timestamp::from_secs(1_700_000_000);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Route {
    Search,
    Upload,
}

impl Route {
    /// How many units a request of this route costs.
    const fn weight(self) -> u64 {
        match self {
            Route::Search => 1,
            Route::Upload => 25,
        }
    }
}

fn per_minute(limit: u64) -> TokenBucket {
    TokenBucket::new(Quota::per_minute(limit))
}

#[test]
fn a_pair_hashes_as_the_tuple_it_looks_up() {
    let hasher = RandomState::default();
    let sip = std::hash::RandomState::new();
    for route in [Route::Search, Route::Upload] {
        for client in ["", "a", "client-42", "ada\u{0}grace"] {
            let key = (route, client.to_string());
            assert_eq!(hasher.hash_one(Pair(&route, client)), hasher.hash_one(&key));
            assert_eq!(sip.hash_one(Pair(&route, client)), sip.hash_one(&key));
        }
    }
    let texts = ("a".to_string(), "b".to_string());
    assert_eq!(hasher.hash_one(Pair("a", "b")), hasher.hash_one(&texts));
    let bytes = (vec![1_u8, 2], 7_u32);
    assert_eq!(
        hasher.hash_one(Pair(&[1_u8, 2][..], &7_u32)),
        hasher.hash_one(&bytes)
    );
}

#[test]
fn a_pair_and_its_tuple_are_one_client() {
    let store: Keyed<(Route, String), _> = Keyed::new(per_minute(2));
    assert!(store.allow(&Pair(&Route::Search, "ada"), NOW));
    assert!(store.allow(&(Route::Search, "ada".to_string()), NOW));
    assert!(!store.allow(&Pair(&Route::Search, "ada"), NOW));
    assert!(!store.allow(&(Route::Search, "ada".to_string()), NOW));
    assert_eq!(store.len(), 1);
    assert!(store.contains(&Pair(&Route::Search, "ada")));
}

#[test]
fn either_part_tells_clients_apart() {
    let store: Keyed<(String, String), _> = Keyed::new(per_minute(1));
    for (route, client) in [
        ("ab", "c"),
        ("a", "bc"),
        ("abc", ""),
        ("", "abc"),
        ("c", "ab"),
    ] {
        assert!(store.allow(&Pair(route, client), NOW), "{route}, {client}");
        assert!(!store.allow(&Pair(route, client), NOW), "{route}, {client}");
    }
    assert_eq!(store.len(), 5);
}

#[test]
fn a_route_weighs_what_it_costs() {
    // A budget per route, and one for all routes of a client: each request takes its weight of both.
    let by_route: Keyed<(Route, String), _> = Keyed::new(per_minute(50));
    let of_client: Keyed<String, _> = Keyed::new(per_minute(60));
    let ask = |route: Route, client: &str| {
        let cost = route.weight();
        let own = by_route.check_n(&Pair(&route, client), cost, NOW).unwrap();
        own.is_allowed() && of_client.check_n(client, cost, NOW).unwrap().is_allowed()
    };
    assert!(ask(Route::Upload, "ada") && ask(Route::Upload, "ada"));
    assert!(!ask(Route::Upload, "ada"), "its route has had its 50");
    for _ in 0..10 {
        assert!(ask(Route::Search, "ada"));
    }
    assert!(!ask(Route::Search, "ada"), "the client has had its 60");
    assert!(ask(Route::Upload, "grace"));
    let search = by_route.peek(&Pair(&Route::Search, "ada"), NOW);
    assert_eq!(search.remaining(), 39);
}

#[test]
fn plans_are_named_for_pairs_too() {
    let plans = Plans::new([("free", per_minute(1)), ("premium", per_minute(3))]).unwrap();
    let store: Keyed<(Route, String), _> = Keyed::new(plans);
    let ada = Pair(&Route::Search, "ada");
    assert!(store.allow_as("free", &ada, NOW).unwrap());
    assert!(!store.allow_as("free", &ada, NOW).unwrap());
    assert!(store.allow_as("premium", &ada, NOW).unwrap());
    let other = Pair(&Route::Upload, "ada");
    assert!(store.allow_as("free", &other, NOW).unwrap());
    assert_eq!(store.plan_of(&ada), Some("premium".into()));
}

#[test]
fn to_look_up_a_pair_allocates_nothing() {
    let store: Keyed<(Route, String), _> = Keyed::new(per_minute(10));
    let texts: Keyed<(String, String), _> = Keyed::new(per_minute(10));
    let plans = Plans::new([("free", per_minute(10)), ("premium", per_minute(20))]).unwrap();
    let planned: Keyed<(Route, String), _> = Keyed::new(plans);
    let key = Pair(
        &Route::Search,
        "a client whose name no small string would hold",
    );
    let text = Pair("/a/route/that/is/long/enough", key.1);
    let ask = || {
        (0..30)
            .map(|_| {
                let allowed = usize::from(store.allow(&key, NOW))
                    + usize::from(texts.allow(&text, NOW))
                    + usize::from(planned.allow_as("free", &key, NOW).unwrap());
                let costly = store.check_n(&key, 5, NOW).unwrap();
                let _ = (costly, store.peek(&key, NOW), store.contains(&key));
                allowed
            })
            .sum::<usize>()
    };
    // A newcomer's key is made, and the first refusal makes the table that remembers refusals.
    let first = allocation_counter::measure(|| assert!(ask() > 0));
    assert!(first.count_total >= 3, "{first:?}");
    let known = allocation_counter::measure(|| assert_eq!(ask(), 0));
    assert_eq!(known.count_total, 0, "refused: {known:?}");
    let later = allocation_counter::measure(|| {
        assert!(store.allow(&key, Timestamp::from_secs(1_700_000_100)));
        assert!(texts.allow(&text, Timestamp::from_secs(1_700_000_100)));
        let premium = planned.allow_as("premium", &key, Timestamp::from_secs(1_700_000_100));
        assert!(premium.unwrap());
    });
    assert_eq!(later.count_total, 0, "allowed: {later:?}");
}
