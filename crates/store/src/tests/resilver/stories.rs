//! Random stories of mirrors: members are attached, lost, fail, come back and leave while hosts write
//! and the power fails; nothing that was answered is ever lost while a current member is there.

use super::*;

/// A world in which members of device 0 come and go in slots 0 to 3.
struct Story {
    world: World,
    /// The member that each slot's device is, by its number; none if it is no member.
    slots: [Option<u8>; 4],
    next_member: u8,
    /// What was done, for whoever has to understand it.
    told: Vec<String>,
}

impl Story {
    fn new(seed: u64) -> Self {
        let is_plain = seed.is_multiple_of(2);
        let world = if is_plain { World::plain(seed) } else { World::mirrored(seed) };
        let slots =
            if is_plain { [Some(1), None, None, None] } else { [Some(11), Some(12), None, None] };
        Self { world, slots, next_member: 30, told: Vec::new() }
    }

    fn state_of(&self, number: u8) -> Option<MemberState> {
        self.world.members().into_iter().find(|(uuid, _)| *uuid == number).map(|(_, state)| state)
    }

    fn is_last_current(&self, number: u8) -> bool {
        let members = self.world.members();
        let mut others = members.iter().filter(|(uuid, _)| *uuid != number);
        !others.any(|(_, state)| *state == MemberState::Current)
    }

    /// A slot whose device is a member in one of these states.
    fn pick(&mut self, wanted: &[MemberState]) -> Option<(u8, u8)> {
        let slot = self.world.random.below(4) as u8;
        let number = self.slots[usize::from(slot)]?;
        let state = self.state_of(number)?;
        wanted.contains(&state).then_some((slot, number))
    }

    fn step(&mut self) {
        match self.world.random.below(16) {
            0 => self.attach(),
            1 | 2 => self.lose(),
            3 | 4 => self.come_back(),
            5 => self.fail(),
            6 => self.detach(),
            7 => self.pause(),
            8 | 9 => self.crash(),
            10 => self.checkpoint(),
            11 => self.settle(),
            _ => self.write(),
        }
        for _ in 0..self.world.random.below(120) {
            self.world.step();
        }
    }

    fn tell(&mut self, what: String) {
        self.told.push(what);
    }

    fn write(&mut self) {
        self.world.write_something();
    }

    fn checkpoint(&mut self) {
        let _ = self.world.change(Change::Checkpoint);
    }

    fn settle(&mut self) {
        self.tell("settle".to_owned());
        while self.world.step() {}
    }

    fn pause(&mut self) {
        let pauses = self.world.random.below(2) == 0;
        self.tell(format!("pause {pauses}"));
        let change = if pauses { ResilverChange::Pause } else { ResilverChange::Resume };
        let _ = self.world.change(Change::Resilver(change));
    }

    fn attach(&mut self) {
        let Some(slot) = self.slots.iter().position(Option::is_none) else { return };
        let number = self.next_member;
        self.next_member += 1;
        self.tell(format!("attach {number} in {slot}"));
        let spec = member(number, slot as u8);
        if self.world.change(Change::AttachMember { device: 0, member: spec }).is_ok() {
            self.slots[slot] = Some(number);
        }
    }

    fn lose(&mut self) {
        let Some((slot, number)) = self.pick(&[MemberState::Current, MemberState::Resilvering])
        else {
            return;
        };
        if self.is_last_current(number) {
            return;
        }
        self.tell(format!("lose {number} in {slot}"));
        let writes = [self.world.begin_write(), self.world.begin_write()];
        for _ in 0..self.world.random.below(16) {
            self.world.step();
        }
        self.world.store.lose(slot);
        self.forget_unflushed(slot);
        for write in writes {
            self.world.wait(write.0.0).unwrap();
            self.world.answered(write);
        }
    }

    /// A device that goes away may lose what it was not told to keep.
    fn forget_unflushed(&mut self, slot: u8) {
        let World { disks, random, .. } = &mut self.world;
        disks.get_mut(&slot).unwrap().crash(random);
    }

    fn fail(&mut self) {
        let Some((slot, number)) = self.pick(&[MemberState::Current, MemberState::Resilvering])
        else {
            return;
        };
        if self.is_last_current(number) {
            return;
        }
        self.tell(format!("fail {number} in {slot}"));
        self.world.disks.get_mut(&slot).unwrap().fails = true;
        self.forget_unflushed(slot);
        self.world.write_something();
        self.world.write_something();
        while self.world.step() {}
        self.world.disks.get_mut(&slot).unwrap().fails = false;
        if self.state_of(number) != Some(MemberState::Absent) {
            self.world.store.lose(slot);
        }
    }

    fn come_back(&mut self) {
        let Some((slot, number)) = self.pick(&[MemberState::Absent]) else { return };
        self.tell(format!("return {number} in {slot}"));
        let result = self.world.change(Change::ReturnMember { member: member(number, slot) });
        let busy = Failure::from(ChangeError::MemberBusy);
        let mirrors = self.world.store.mirrors().flat_map(|mirror| mirror.members);
        let mirrors: Vec<_> =
            mirrors.map(|member| (member.uuid[0], member.slot, member.state)).collect();
        assert!(result.is_ok() || result == Err(busy), "{result:?} {mirrors:?} {:#?}", self.told);
    }

    fn detach(&mut self) {
        let states = [MemberState::Current, MemberState::Resilvering, MemberState::Absent];
        let Some((slot, number)) = self.pick(&states) else { return };
        if self.world.members().len() < 2 {
            return;
        }
        self.tell(format!("detach {number} in {slot}"));
        match self.world.change(Change::DetachMember { member: [number; 16] }) {
            Ok(()) => self.slots[usize::from(slot)] = None,
            Err(failure) => assert_eq!(failure, ChangeError::LastMember.into()),
        }
    }

    fn crash(&mut self) {
        self.tell("crash".to_owned());
        let world = std::mem::replace(&mut self.world, World::plain(0));
        // Sometimes in the middle of something.
        let slots: Vec<u8> =
            (0..4).filter(|&slot| self.slots[usize::from(slot)].is_some()).collect();
        self.world = match world.crash().open(&slots) {
            Ok(world) => world,
            Err(failure) => panic!("{failure:?} {:#?}", self.told),
        };
        self.world.check(&format!("{:#?}", self.told));
    }

    /// Every member comes back and is resilvered; each of them alone holds everything.
    fn end(mut self) {
        let _ = self.world.change(Change::Resilver(ResilverChange::Resume));
        for slot in 0..4 {
            let Some(number) = self.slots[usize::from(slot)] else { continue };
            while self.state_of(number) == Some(MemberState::Absent) {
                while self.world.step() {}
                let back = Change::ReturnMember { member: member(number, slot) };
                if let Err(failure) = self.world.change(back) {
                    assert_eq!(failure, ChangeError::MemberBusy.into(), "{:#?}", self.told);
                }
            }
        }
        self.world.finish_resilver();
        let told = format!("{:#?}", self.told);
        self.world.check(&told);
        let slots: Vec<u8> =
            (0..4).filter(|&slot| self.slots[usize::from(slot)].is_some()).collect();
        each_alone(&self.world.crash(), &slots, &told);
    }
}

#[test]
fn whatever_becomes_of_members_each_holds_everything_in_the_end() {
    for seed in 0..24 {
        let mut story = Story::new(seed);
        for _ in 0..40 {
            story.step();
        }
        story.end();
    }
}
