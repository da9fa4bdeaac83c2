//! Turns among controllers whose messages are late, that are started anew, and do not always hear each other.

use super::*;

const ALL: [u16; 3] = [1, 2, 3];

/// A few random numbers (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

/// What a controller tells: of turns, and how many changes it knows of by each.
#[derive(Clone)]
struct Told {
    life: u64,
    turns: TurnReport,
    knows: BTreeMap<u16, u64>,
}

/// A controller, what it heard of others, and how much each knows.
struct One {
    turns: Turns,
    life: u64,
    told: TurnReport,
    /// What was heard last of each other one.
    heard: BTreeMap<u16, Option<Told>>,
    /// Changes that it knows of, by who made them.
    knows: BTreeMap<u16, u64>,
    /// Something is being changed.
    is_busy: bool,
    wants: bool,
    /// Whether it has all pools.
    has_all_pools: bool,
}

struct Room {
    ones: BTreeMap<u16, One>,
    /// Reports on their way: from whom, and to whom.
    on_their_way: Vec<(u16, u16, Told)>,
    /// From whom to whom messages take long.
    slow: (u16, u16),
    lives: u64,
    begun: u64,
    /// Who has all pools, if one has.
    owner: Option<u16>,
    /// Changes that were not saved, as somebody was not heard any more.
    given_up: u64,
}

impl Room {
    fn new(owner: Option<u16>) -> Self {
        let (ones, on_their_way) = (BTreeMap::new(), Vec::new());
        let mut room =
            Self { ones, on_their_way, slow: (0, 0), lives: 0, begun: 0, owner, given_up: 0 };
        ALL.into_iter().for_each(|number| room.start(number));
        room
    }

    /// A controller is started: what it had changed is on its medium.
    fn start(&mut self, number: u16) {
        self.lives += 1;
        let life = self.lives;
        let was_busy = self.ones.get(&number).is_some_and(|one| one.is_busy);
        let mut knows = self.ones.remove(&number).map(|one| one.knows).unwrap_or_default();
        // It was ended in the middle of a change, which is on its medium.
        *knows.entry(number).or_default() += u64::from(was_busy);
        let others = ALL.into_iter().filter(|&other| other != number);
        let one = One {
            turns: Turns::new(Start { number, life }),
            life,
            told: TurnReport::default(),
            heard: others.map(|other| (other, None)).collect(),
            knows,
            is_busy: false,
            wants: false,
            has_all_pools: self.owner == Some(number),
        };
        self.ones.insert(number, one);
        self.on_their_way.retain(|(from, to, ..)| *from != number && *to != number);
    }

    fn look(&mut self, number: u16) {
        let one = self.ones.get_mut(&number).unwrap();
        let made = one.knows.get(&number).copied().unwrap_or(0);
        let heard_by_all = one.heard.values().all(|heard| {
            let knows = |told: &Told| told.knows.get(&number).copied().unwrap_or(0) >= made;
            heard.as_ref().is_some_and(knows)
        });
        // What one without pools changes it keeps in a pool that it makes by that: others hear it.
        let is_at_rest = !one.is_busy && heard_by_all;
        let here = Here { is_at_rest, wants: one.wants, has_all_pools: one.has_all_pools };
        let others = one.heard.iter().map(|(&other, heard)| {
            (other, heard.as_ref().map(|told| Said { life: told.life, turns: &told.turns }))
        });
        one.told = one.turns.look(&others.collect(), here);
    }

    fn tell(&mut self, number: u16) {
        let one = &self.ones[&number];
        for &other in one.heard.keys() {
            let (turns, knows) = (one.told.clone(), one.knows.clone());
            self.on_their_way.push((number, other, Told { life: one.life, turns, knows }));
        }
    }

    /// The oldest message of somebody arrives; those of one controller to another keep their order.
    fn hear(&mut self, random: &mut Random) {
        if self.on_their_way.is_empty() {
            return;
        }
        let at = random.below(self.on_their_way.len() as u64) as usize;
        let (from, to, ..) = self.on_their_way[at];
        if (from, to) == self.slow && random.below(16) > 0 {
            return;
        }
        let first = self.on_their_way.iter().position(|(f, t, ..)| (*f, *t) == (from, to)).unwrap();
        let (from, to, told) = self.on_their_way.remove(first);
        let one = self.ones.get_mut(&to).unwrap();
        // Everybody tells its own changes, and of those of others only that it knows them.
        let made = told.knows.get(&from).copied().unwrap_or(0);
        let known = one.knows.entry(from).or_default();
        *known = (*known).max(made);
        one.heard.insert(from, Some(told));
    }

    /// A change is begun where that is allowed: nobody else is busy, and all that was changed is known.
    fn begin(&mut self, number: u16) {
        let one = &self.ones[&number];
        if one.is_busy || (one.turns.needs_turn() && !one.turns.may_begin()) {
            return;
        }
        for (&other, one) in &self.ones {
            assert!(other == number || !one.is_busy, "{number} and {other} change at once");
            for (maker, count) in &one.knows {
                let known = self.ones[&number].knows.get(maker).copied().unwrap_or(0);
                assert!(known >= *count, "{number} does not know what {maker} changed");
            }
        }
        let one = self.ones.get_mut(&number).unwrap();
        (one.is_busy, one.wants) = (true, false);
        self.begun += 1;
    }

    fn end(&mut self, number: u16) {
        let one = self.ones.get_mut(&number).unwrap();
        if std::mem::take(&mut one.is_busy) {
            *one.knows.entry(number).or_default() += 1;
        }
    }

    /// Whoever has all pools waits no more for those that are silent: one of them that changes something does not hear
    /// it either, or does not save what it does.
    fn give_up_silent(&mut self) {
        let Some(owner) = self.owner else { return };
        self.look(owner);
        if self.ones[&owner].turns.hears_all() {
            return;
        }
        let heard = self.ones[&owner].heard.clone();
        let (silent, others): (Vec<_>, Vec<_>) = heard.iter().partition(|(_, told)| told.is_none());
        if others.iter().any(|(other, _)| self.ones[*other].is_busy) {
            return;
        }
        for (&other, _) in silent {
            self.cut(owner, other);
            self.look(other);
            let one = self.ones.get_mut(&other).unwrap();
            if std::mem::take(&mut one.is_busy) {
                assert!(!one.turns.may_save(), "{other} saves without hearing {owner}");
                self.given_up += 1;
            }
            // What it did before nobody can know who does not hear it.
            let made = one.knows.get(&other).copied().unwrap_or(0);
            self.ones.get_mut(&owner).unwrap().knows.insert(other, made);
        }
        self.ones.get_mut(&owner).unwrap().turns.give_up_silent();
    }

    /// One is not heard by another one any more: nothing of it arrives until it says something anew.
    fn cut(&mut self, from: u16, to: u16) {
        if from != to {
            self.ones.get_mut(&to).unwrap().heard.insert(from, None);
            self.on_their_way.retain(|(f, t, ..)| (*f, *t) != (from, to));
        }
    }
}

fn any(random: &mut Random) -> u16 {
    ALL[random.below(3) as usize]
}

#[test]
fn nobody_begins_while_another_one_changes_something_or_before_all_is_known() {
    search(|_| None);
}

#[test]
fn whoever_has_all_pools_begins_nothing_while_another_one_makes_one() {
    search(|seed| Some(ALL[(seed % 3) as usize]));
}

fn search(owner: impl Fn(u64) -> Option<u16>) {
    let (mut begun, mut given_up, mut alone) = (0, 0, 0);
    for seed in 1..1200 {
        let (mut random, mut room) = (Random(u64::MAX / seed), Room::new(owner(seed)));
        // Starts often follow each other at once, and else much happens between two.
        let troubles = 1 + random.below(12);
        room.slow = (any(&mut random), any(&mut random));
        for _ in 0..4000 {
            let number = any(&mut random);
            match random.below(40) {
                0..10 => room.look(number),
                10..16 => room.tell(number),
                16..30 => room.hear(&mut random),
                30..32 => room.ones.get_mut(&number).unwrap().wants = true,
                32..36 => {
                    let is_free = !room.ones[&number].turns.needs_turn();
                    let before = room.begun;
                    room.begin(number);
                    alone += u64::from(is_free) * (room.begun - before);
                }
                36..39 => room.end(number),
                39 if random.below(8) == 0 => room.give_up_silent(),
                _ if random.below(troubles) == 0 => room.start(number),
                _ if random.below(troubles) == 0 => room.cut(number, any(&mut random)),
                _ => {}
            }
        }
        begun += room.begun;
        given_up += room.given_up;
    }
    assert!(begun > 1000, "{begun} changes are too few to tell anything");
    let has_owner = owner(0).is_some();
    assert!(!has_owner || (alone > 1000 && given_up > 10), "{alone} alone, {given_up} given up");
    assert!(has_owner || alone == 0, "{alone} began without a turn");
}

#[test]
fn whoever_waits_gets_a_turn_and_one_that_is_wanted_is_given_back() {
    wait_for_turns(Room::new(None));
}

#[test]
fn whoever_has_all_pools_lets_others_have_turns_also_after_it_went_on_alone() {
    let mut room = Room::new(Some(2));
    room.give_up_silent();
    room.begin(2);
    assert_eq!(room.begun, 1);
    room.end(2);
    wait_for_turns(room);
}

#[test]
fn a_turn_that_was_given_before_a_start_is_given_back() {
    let mut room = Room::new(None);
    let mut random = Random(7);
    room.ones.get_mut(&2).unwrap().wants = true;
    let mut talk = |room: &mut Room| {
        for number in ALL {
            room.look(number);
            room.tell(number);
        }
        while !room.on_their_way.is_empty() {
            room.hear(&mut random);
        }
    };
    (0..8).for_each(|_| talk(&mut room));
    room.begin(2);
    room.end(2);
    assert_eq!(room.begun, 1, "it has a turn, and keeps it");
    room.start(1);
    wait_for_turns(room);
}

fn wait_for_turns(mut room: Room) {
    let mut random = Random(7);
    let mut begun = BTreeMap::<u16, u64>::new();
    for _ in 0..300 {
        for number in ALL {
            room.ones.get_mut(&number).unwrap().wants = true;
            room.look(number);
            room.tell(number);
        }
        while !room.on_their_way.is_empty() {
            room.hear(&mut random);
        }
        for number in ALL {
            let before = room.begun;
            room.begin(number);
            *begun.entry(number).or_default() += room.begun - before;
            room.end(number);
        }
    }
    assert!(ALL.iter().all(|number| begun[number] >= 20), "{begun:?}");
}

#[test]
fn there_are_no_turns_while_one_is_not_heard_or_knows_none() {
    let own = Start { number: 1, life: 10 };
    let mut turns = Turns::new(own);
    let here = Here { is_at_rest: true, wants: true, has_all_pools: false };
    let other = TurnReport { follows: Some(own), is_at_rest: true, ..TurnReport::default() };
    let said = Some(Said { life: 20, turns: &other });
    let told = turns.look(&BTreeMap::from([(2, said), (3, None)]), here);
    assert_eq!((told.has, told.gives, turns.may_begin()), (None, None, false));
    let told = turns.look(&BTreeMap::from([(2, said)]), here);
    assert_eq!((told.has, turns.may_begin()), (Some(1), true));
}
