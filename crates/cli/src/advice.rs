//! Advice after a refusal, in words of the command line: the daemon's sentences are for every
//! program that asks, so they name no commands.

use api::{Problem, ProblemKind};

/// The daemon's sentence, and the command or option that helps, if there is one.
pub(crate) fn explain(problem: &Problem) -> String {
    match advice(problem) {
        Some(advice) => format!("{} ({advice})", problem.detail),
        None => problem.detail.clone(),
    }
}

fn advice(problem: &Problem) -> Option<String> {
    let member = |name: &str| problem.members.get(name).and_then(|value| value.as_str());
    let kind = ProblemKind::ALL.iter().copied().find(|&kind| problem.is(kind))?;
    Some(match kind {
        ProblemKind::NotFound => {
            let object = member("object").filter(|object| LISTED.contains(object))?;
            format!("'gantry {object} list' shows what there is")
        }
        ProblemKind::DeviceMissing => "--device file:PATH or --device block:PATH".to_owned(),
        ProblemKind::DeviceSizeMissing => "for example --size 20G".to_owned(),
        ProblemKind::DeviceAmbiguous => "--device NUMBER".to_owned(),
        ProblemKind::ShrinkNotConfirmed => "--shrink".to_owned(),
        ProblemKind::StillMapped => "'gantry volume unmap'; 'gantry volume revert' has --force, too".to_owned(),
        ProblemKind::HostInUse => "'gantry volume list' shows them".to_owned(),
        ProblemKind::NotMapped => "'gantry volume show' lists its maps".to_owned(),
        ProblemKind::LunTaken | ProblemKind::LunResting | ProblemKind::LunHeld => {
            "another --lun, or none".to_owned()
        }
        ProblemKind::LunFixed => {
            let lun = problem.members.get("lun")?;
            format!("--lun {lun}, or none")
        }
        ProblemKind::IsSnapshot => "'gantry snapshot' has commands for it".to_owned(),
        ProblemKind::IsVolume => "'gantry volume' has commands for it".to_owned(),
        ProblemKind::NotItsSnapshot => {
            "'gantry snapshot list' shows them, 'gantry volume clone' makes a volume of any".to_owned()
        }
        ProblemKind::PoolNotOpen => {
            "--force forgets it; 'gantry pool open' tries at once to open it".to_owned()
        }
        ProblemKind::PoolUnavailable => "'gantry pool list' shows its state".to_owned(),
        ProblemKind::PoolFull => {
            "'gantry pool add-device' or 'gantry pool extend' makes room; a volume without --thick needs none now".to_owned()
        }
        ProblemKind::PortalFixed => "start gantryd without its --iscsi".to_owned(),
        ProblemKind::NotSetUp => {
            "'gantry user change admin --password --own' on the array's own machine".to_owned()
        }
        ProblemKind::TooMany if member("object") == Some("tokens") => {
            "'gantry token list' shows them".to_owned()
        }
        _ => return None,
    })
}

/// Objects that have a command of that name with a list.
const LISTED: [&str; 9] =
    ["pool", "volume", "snapshot", "host", "group", "schedule", "user", "token", "task"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_explained_with_the_command_that_helps() {
        let missing = Problem::new(ProblemKind::NotFound, "there is no volume named 'p/v'");
        assert_eq!(explain(&missing), "there is no volume named 'p/v'");
        let missing = missing.with("object", "volume");
        assert!(explain(&missing).ends_with("('gantry volume list' shows what there is)"));
        let strange = missing.with("object", "quota; rm -rf /");
        assert_eq!(explain(&strange), "there is no volume named 'p/v'");
        let size = Problem::new(ProblemKind::DeviceSizeMissing, "say how large");
        assert_eq!(explain(&size), "say how large (for example --size 20G)");
        let other = Problem { kind: "about:blank".to_owned(), ..size };
        assert_eq!(explain(&other), "say how large");
    }
}
