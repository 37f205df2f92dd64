//! Entries of which only a part is regular, by the same checks.

use super::*;

/// An allocation that is not regular, before the regular one of this place.
type Guest = (usize, Life);

/// The place of a burst.
const LATE: usize = 7;

/// Regular arrays: they live for a number of regular allocations.
fn backbone() -> impl Strategy<Value = Vec<Life>> {
    prop::collection::vec((1..5000u64, 1..12usize), 10..40)
}

fn guests() -> impl Strategy<Value = Vec<Guest>> {
    prop::collection::vec((0..40usize, (1..5000u64, 1..30usize)), 0..40)
}

/// Guests in two of the gaps.
fn bursts() -> impl Strategy<Value = Vec<Guest>> {
    let place = any::<bool>().prop_map(|is_late| if is_late { LATE } else { 0 });
    prop::collection::vec((place, (1..5000u64, 1..30usize)), 0..40)
}

/// An entry with a backbone and these guests. Regular arrays are dropped as early in the backbone as without guests.
fn mixed(backbone: &[Life], guests: &[Guest]) -> Vec<Life> {
    let gap = |guest: &Guest| guest.0.min(backbone.len());
    let mut entry: Vec<(Option<usize>, Life)> = Vec::new();
    for place in 0..=backbone.len() {
        entry.extend(guests.iter().filter(|guest| gap(guest) == place).map(|guest| (None, guest.1)));
        entry.extend(backbone.get(place).map(|&life| (Some(place), life)));
    }
    let number = |place: usize| entry.iter().position(|(regular, _)| *regular == Some(place)).unwrap_or(entry.len());
    let life = |(now, &(regular, (bytes, length))): (usize, &(Option<usize>, Life))| match regular {
        Some(place) => (bytes, number(place + length) - now),
        None => (bytes, length),
    };
    entry.iter().enumerate().map(life).collect()
}

fn partly(backbone: &[Life], recorded: &[Vec<Guest>]) -> Option<Program> {
    let logs: Vec<Log> = recorded.iter().map(|guests| log(&mixed(backbone, guests))).collect();
    let envelope = Envelope::of_regular_part(&logs.iter().collect::<Vec<_>>(), false)?;
    Some(Program::with(envelope))
}

/// An entry: its guests, other changes, and whether it drops all its arrays.
type Other = (Vec<Guest>, Vec<(prop::sample::Index, Change)>, bool);

fn all(backbone: &[Life], entries: &[Other]) -> Vec<(Vec<Life>, bool)> {
    let one = |(guests, changes, leaves): &Other| (changed(&mixed(backbone, guests), changes), *leaves);
    entries.iter().map(one).collect()
}

fn is_safe(mut program: Program, entries: &[(Vec<Life>, bool)]) {
    for (entry, leaves) in entries {
        program.run(entry);
        if *leaves {
            program.leave();
        }
    }
    let live: Vec<_> = program.cursor.evict().iter().map(|live| (live.offset, live.position)).collect();
    let mut alive: Vec<_> = program.alive.iter().map(|array| (array.place.start, array.position)).collect();
    alive.sort_unstable();
    assert_eq!(live, alive);
    assert_eq!(program.cursor.live(), 0);
}

/// An array of an entry whose order is known: its life, and the size that it has instead in some entries.
type Shared = (Life, Option<u64>);

fn shared() -> impl Strategy<Value = Vec<Shared>> {
    prop::collection::vec(((1..5000u64, 1..12usize), prop::option::of(1..5000u64)), 12..40)
}

/// An entry of this order. `share` says how far the sizes that vary are from the first to the second one, in percent.
fn of_share(order: &[Shared], share: u64) -> Vec<Life> {
    let size = |&((bytes, length), other): &Shared| {
        let bytes = other.map_or(bytes, |other| (bytes * (100 - share) + other * share) / 100);
        (bytes.max(1), length)
    };
    order.iter().map(size).collect()
}

fn in_order(order: &[Shared], recorded: &[u64]) -> Option<Program> {
    let logs: Vec<Log> = recorded.iter().map(|&share| log(&of_share(order, share))).collect();
    let envelope = Envelope::of_regular_part(&logs.iter().collect::<Vec<_>>(), true)?;
    Some(Program::with(envelope))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    #[test]
    fn nothing_alive_is_served_between_regular_allocations(
        backbone in backbone(),
        recorded in prop::collection::vec(guests(), 4),
        entries in prop::collection::vec((guests(), changes(), any::<bool>()), 1..6),
    ) {
        if let Some(program) = partly(&backbone, &recorded) {
            is_safe(program, &all(&backbone, &entries));
        }
    }

    #[test]
    fn nothing_alive_is_served_in_bursts(
        backbone in backbone(),
        recorded in prop::collection::vec(bursts(), 4),
        entries in prop::collection::vec((bursts(), changes(), any::<bool>()), 1..6),
    ) {
        if let Some(program) = partly(&backbone, &recorded) {
            is_safe(program, &all(&backbone, &entries));
        }
    }

    #[test]
    fn nothing_alive_is_served_where_sizes_vary(
        order in shared(),
        recorded in prop::collection::vec(0..100u64, 4),
        entries in prop::collection::vec((0..100u64, changes(), any::<bool>()), 1..6),
    ) {
        if let Some(program) = in_order(&order, &recorded) {
            let entry = |(share, changes, leaves): &(u64, Vec<_>, bool)| (changed(&of_share(&order, *share), changes), *leaves);
            is_safe(program, &entries.iter().map(entry).collect::<Vec<_>>());
        }
    }

    #[test]
    fn an_order_is_served_as_a_whole_if_its_sizes_were_recorded(
        order in shared(),
        recorded in prop::collection::vec(0..100u64, 4),
    ) {
        if let Some(mut program) = in_order(&order, &recorded) {
            for share in recorded {
                let before = program.cursor.served();
                program.run(&of_share(&order, share));
                program.leave();
                prop_assert_eq!(program.cursor.served() - before, order.len() as u64);
                prop_assert_eq!(program.cursor.left_out(), 0);
            }
        }
    }

    #[test]
    fn the_regular_part_is_served(
        backbone in prop::collection::vec(1..12usize, 10..40),
        recorded in prop::collection::vec(bursts(), 4),
        other in bursts(),
    ) {
        // Each size comes once, so that nothing looks regular by chance. Guests end in their gap, so that they are in no place of a regular array.
        let backbone: Vec<Life> = backbone.into_iter().zip(1..).map(|(length, size)| (size << 20, length)).collect();
        let mut sizes = (1..).map(|number| 256 * number);
        let mut unlike = |guests: Vec<Guest>| -> Vec<Guest> {
            guests.into_iter().zip(sizes.by_ref()).map(|((place, _), size)| (place, (size, 1))).collect()
        };
        let recorded: Vec<Vec<Guest>> = recorded.into_iter().map(&mut unlike).collect();
        let other = unlike(other);
        let most = recorded.iter().map(Vec::len).max().unwrap_or(0);
        // If the latest entries have as many guests, these have positions, as in the test below.
        let are_alike = recorded[1..].windows(2).all(|pair| pair[0].len() == pair[1].len());
        if let Some(mut program) = partly(&backbone, &recorded).filter(|_| most < backbone.len() && !are_alike) {
            let entry = mixed(&backbone, &other);
            program.run(&entry);
            prop_assert_eq!(program.cursor.left_out(), 0);
        }
    }
}

#[test]
fn two_regular_allocations_show_that_a_long_gap_is_left_out() {
    let backbone: Vec<Life> = (1..=26).map(|size| (size << 20, 1)).collect();
    for (length, left_out) in [(40, 0), (60, 1)] {
        let guests =
            |factor: u64| -> Vec<Guest> { (1..=length).map(|size| (LATE, (256 * size * factor, 1))).collect() };
        let mut program = partly(&backbone, &[1, 2, 3, 2].map(guests)).unwrap();
        program.run(&mixed(&backbone, &[]));
        assert_eq!(program.cursor.left_out(), left_out, "{length} left out");
    }
}
