use proptest::prelude::*;

use super::*;
use crate::commands::table;

/// A CDB of a command that exists, or anything.
fn any_cdb() -> impl Strategy<Value = Vec<u8>> {
    let known = (0..table::ROWS.len(), prop::collection::vec(any::<u8>(), 16), any::<bool>());
    let known = known.prop_map(|(row, noise, masked)| {
        let row = &table::ROWS[row];
        let mut cdb = noise;
        cdb.truncate(row.usage.len());
        if masked {
            cdb.iter_mut().zip(row.usage).for_each(|(byte, used)| *byte &= used);
            // Small numbers find the inside of the unit.
            cdb[2..].iter_mut().take(5).for_each(|byte| *byte = 0);
        }
        cdb[0] = row.opcode;
        if let Some(action) = row.service_action {
            cdb[1] = cdb[1] & 0xe0 | action;
        }
        cdb
    });
    prop_oneof![4 => known, 1 => prop::collection::vec(any::<u8>(), 0..40)]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn no_command_stops_the_target_or_is_left_unanswered(
        commands in prop::collection::vec(
            (any_cdb(), prop::collection::vec(any::<u8>(), 0..3000), 0u16..3),
            1..20,
        ),
    ) {
        let mut world = World::new();
        let count = commands.len();
        for (cdb, data, lun) in commands {
            world.begin(ALICE, lun, &cdb, &data);
        }
        while world.step() {}
        prop_assert_eq!(std::iter::from_fn(|| world.target.next_done()).count(), count);
        prop_assert_eq!(world.target.tasks_under_way(), 0);
    }
}
