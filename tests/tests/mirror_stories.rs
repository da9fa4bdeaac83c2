//! Stories of an administrator who is busy while devices fail: members are attached, detached, replaced, given back and
//! held up at random, mirrors join, grow and leave, spares step in, snapshots come and go, two commands at once, while
//! devices answer with errors, hang, are pulled and come back, the daemon is killed and the pool exported and imported,
//! under a load of all offloads whose answers are checked. After each story everything that was broken is mended: then
//! the pool must become whole and take commands, whatever it was asked for before.
//!
//! `GANTRY_STORIES` says how many are told, `GANTRY_STORY_SEED` which is the first.

use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use harness::faulty_folder::{EIO, FaultyFolder, Stall};
use harness::history::Values;
use harness::history::client::Arena;
use harness::history::load::Load;
use harness::members::scrub_until_clean;
use harness::program::Finished;
use harness::random::Random;
use harness::waiting::wait_until;
use harness::{Array, Value, number, setting, text};

/// The limit after which a device that does not answer is left out.
const HANG_LIMIT: &str = "2";

/// Blocks of 512 bytes of each of the two LUNs of the load.
const BLOCKS: u64 = 1024;

/// Size of each member at first.
const SIZE: &str = "1G";

/// Mirrors that a pool has at most in a story.
const MIRRORS_MAX: usize = 3;

/// Things that happen in a story.
const EVENTS: u64 = 16;

/// What is wrong with a folder.
enum Fault {
    Errors,
    Hang {
        _until: Stall,
    },
    /// Its files are there under other names.
    Pulled(Vec<PathBuf>),
}

/// A file system with devices.
struct Folder {
    files: FaultyFolder,
    fault: Option<Fault>,
}

impl Folder {
    fn set_error(&self, error: i32) {
        self.files.fail_writes(error);
        self.files.fail_reads(error);
        self.files.fail_fsync(error);
    }

    fn devices(&self) -> Result<Vec<PathBuf>> {
        let entries = std::fs::read_dir(self.files.path())?;
        let paths = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
        Ok(paths
            .into_iter()
            .filter(|path| path.extension().is_some_and(|is| is == "img"))
            .collect())
    }

    fn pull(&mut self) -> Result<()> {
        let devices = self.devices()?;
        for device in &devices {
            std::fs::rename(device, device.with_extension("away"))?;
        }
        self.fault = Some(Fault::Pulled(devices));
        Ok(())
    }

    fn mend(&mut self) -> Result<()> {
        self.set_error(0);
        if let Some(Fault::Pulled(devices)) = self.fault.take() {
            for device in devices {
                std::fs::rename(device.with_extension("away"), &device)?;
            }
        }
        Ok(())
    }
}

struct Story {
    array: Array,
    folders: Vec<Folder>,
    arena: Arena,
    load: Option<Load>,
    values: Values,
    runs: u64,
    random: Random,
    files: u64,
    /// Devices that were asked to be replaced, and by which.
    replaced: Vec<(String, String)>,
    told: Vec<String>,
}

/// A member of a mirror, as the array tells of it.
struct Member {
    device: String,
    state: String,
}

impl Member {
    fn of(member: &Value) -> Result<Self> {
        let [device, state] = ["/device", "/state"].map(|at| text(member, at).map(str::to_owned));
        Ok(Self { device: device?, state: state? })
    }
}

impl Story {
    fn start(seed: u64) -> Result<Self> {
        let mut array = Array::prepare()?.with_words(&[], &["--hang-limit", HANG_LIMIT]);
        array.restart()?;
        let folder = || {
            let files = FaultyFolder::mount_with_size(6 << 30)?;
            anyhow::Ok(Folder { files, fault: None })
        };
        let folders = (0..4).map(|_| folder()).collect::<Result<Vec<_>>>()?;
        let [a, b] = [0, 1].map(|at| device(&folders[at], 0));
        array.gantry(&["pool", "create", "p", "--mirror", "2", &a, &b, "--size", SIZE])?;
        let lun = |path: &str| Ok(u8::try_from(array.create_lun(path, "16M")?)?);
        let luns = ["p/a", "p/b"].map(lun).into_iter().collect::<Result<Vec<u8>>>()?;
        let arena = Arena::of(vec![array.portal()], array.target_name()?, &luns, BLOCKS)?;
        Ok(Self {
            array,
            folders,
            arena,
            load: None,
            values: Values::new(),
            runs: seed << 16,
            random: Random::new(seed),
            files: 0,
            replaced: Vec::new(),
            told: Vec::new(),
        })
    }

    fn start_load(&mut self) {
        self.runs += 1;
        self.load = Some(Load::start(&self.arena, self.runs, std::mem::take(&mut self.values)));
    }

    fn stop_load(&mut self) -> Result<()> {
        self.values = self.load.take().context("a load")?.stop()?.after;
        Ok(())
    }

    fn is_sound(&self) -> Result<()> {
        self.load.as_ref().context("a load")?.is_sound(&self.arena)
    }

    fn pause(&mut self, most_ms: u64) {
        thread::sleep(Duration::from_millis(self.random.below(most_ms)));
    }

    fn pool(&self) -> Result<Value> {
        self.array.gantry_json(&["pool", "show", "p"])
    }

    /// Something of each mirror.
    fn of_mirrors<T>(&self, of: impl Fn(&Value) -> Result<T>) -> Result<Vec<T>> {
        let pool = self.pool()?;
        pool["mirrors"].as_array().context("mirrors")?.iter().map(of).collect()
    }

    /// The members of each mirror.
    fn mirrors(&self) -> Result<Vec<Vec<Member>>> {
        self.of_mirrors(|mirror| {
            let members = mirror["members"].as_array().context("members")?;
            members.iter().map(Member::of).collect()
        })
    }

    fn members(&self) -> Result<Vec<Member>> {
        Ok(self.mirrors()?.into_iter().flatten().collect())
    }

    fn folder_of(&self, device: &str) -> Option<usize> {
        let is_there = |folder: &Folder| device.contains(&*folder.files.path().to_string_lossy());
        self.folders.iter().position(is_there)
    }

    /// A folder to which something may happen: of each mirror there is a current member in another one, to
    /// which nothing has happened, that nobody asked to leave.
    fn victim(&mut self) -> Result<Option<usize>> {
        let at = self.random.below(self.folders.len() as u64) as usize;
        let is_asked_to_leave = |device: &str| self.replaced.iter().any(|(old, _)| old == device);
        let is_sure = |member: &Member| {
            let folder = self.folder_of(&member.device);
            let is_well = folder.is_some_and(|at| self.folders[at].fault.is_none());
            let goes_on = folder != Some(at) && !is_asked_to_leave(&member.device);
            member.state == "current" && is_well && goes_on
        };
        let is_spared = self.folders[at].fault.is_some()
            || !self.mirrors()?.iter().all(|members| members.iter().any(is_sure));
        Ok((!is_spared).then_some(at))
    }

    fn new_device(&mut self) -> String {
        self.files += 1;
        let at = self.random.below(self.folders.len() as u64) as usize;
        device(&self.folders[at], self.files)
    }

    /// Devices in folders of their own.
    fn new_pair(&mut self) -> [String; 2] {
        self.files += 2;
        let count = self.folders.len() as u64;
        let at = self.random.below(count);
        let other = (at + 1 + self.random.below(count - 1)) % count;
        [(at, self.files - 1), (other, self.files)]
            .map(|(folder, file)| device(&self.folders[folder as usize], file))
    }

    fn some_member(&mut self) -> Result<String> {
        let members = self.members()?;
        Ok(members[self.random.below(members.len() as u64) as usize].device.clone())
    }

    /// Numbers of the mirrors; what has left leaves a gap.
    fn numbers(&self) -> Result<Vec<u64>> {
        self.of_mirrors(|mirror| number(mirror, "/index"))
    }

    fn some_mirror(&mut self) -> Result<String> {
        let numbers = self.numbers()?;
        Ok(numbers[self.random.below(numbers.len() as u64) as usize].to_string())
    }

    /// A command of an administrator. What it asks for may be refused; an answer there must be.
    fn command(&mut self) -> Result<Vec<String>> {
        match self.random.below(3) {
            0 | 1 => self.command_of_members(),
            _ => self.command_of_mirrors(),
        }
    }

    fn command_of_members(&mut self) -> Result<Vec<String>> {
        Ok(match self.random.below(12) {
            0 | 1 => words(&[
                "pool",
                "attach",
                "p",
                &self.new_device(),
                "--mirror",
                &self.some_mirror()?,
            ]),
            2 => {
                // The last current one that works is kept.
                let Some(at) = self.victim()? else { return self.command() };
                let members = self.members()?;
                let of_folder = |member: &&Member| self.folder_of(&member.device) == Some(at);
                let Some(leaves) = members.iter().find(of_folder) else {
                    return self.command();
                };
                words(&["pool", "detach", "p", &leaves.device])
            }
            3 | 4 => {
                let (old, new) = (self.some_member()?, self.new_device());
                self.replaced.push((old.clone(), new.clone()));
                words(&["pool", "replace", "p", &old, &new])
            }
            5 | 6 => words(&["pool", "return", "p", &self.some_member()?]),
            7 => words(&["pool", "resilver", "p", "pause"]),
            8 => words(&["pool", "resilver", "p", "resume"]),
            9 => words(&["pool", "resilver", "p", "cancel", &self.some_member()?]),
            10 => words(&["scrub", "start", "p"]),
            _ => words(&["scrub", "stop", "p"]),
        })
    }

    fn command_of_mirrors(&mut self) -> Result<Vec<String>> {
        Ok(match self.random.below(10) {
            0 | 1 if self.mirrors()?.len() < MIRRORS_MAX => {
                let [a, b] = self.new_pair();
                words(&["pool", "add-device", "p", &a, &b, "--size", SIZE])
            }
            0..3 => words(&["pool", "remove-device", "p", "--device", &self.some_mirror()?]),
            3 => words(&["pool", "departure", "p", "pause"]),
            4 => words(&["pool", "departure", "p", "resume"]),
            5 => words(&["pool", "departure", "p", "cancel"]),
            6 => {
                let mirror = self.some_mirror()?;
                let size = format!("{}M", 1024 + self.random.below(512));
                words(&["pool", "extend", "p", "--device", &mirror, "--size", &size])
            }
            7 => words(&["pool", "spare", "add", "p", &self.new_device(), "--size", SIZE]),
            8 => {
                self.files += 1;
                words(&["snapshot", "create", "p/a", &format!("s{}", self.files)])
            }
            _ => {
                let snapshots = self.array.gantry_json(&["snapshot", "list"])?;
                match snapshots.pointer("/0") {
                    Some(snapshot) => {
                        let path = format!("p/{}", text(snapshot, "/name")?);
                        words(&["snapshot", "delete", &path])
                    }
                    None => words(&["pool", "resilver", "p", "resume"]),
                }
            }
        })
    }

    /// Gives one command, or two at once.
    fn administer(&mut self) -> Result<()> {
        let mut commands = vec![self.command()?];
        // Two that each may take one of two copies could take both.
        let is_harmless = |command: &[String]| !command.iter().any(|word| word == "detach");
        if self.random.below(3) == 0 {
            commands.push(self.command()?);
            if !commands.iter().all(|command| is_harmless(command)) {
                commands.pop();
            }
        }
        let array = &self.array;
        let answers: Vec<Result<Finished>> = thread::scope(|scope| {
            let give = |command: &Vec<String>| {
                let words: Vec<&str> = command.iter().map(String::as_str).collect();
                array.try_gantry(&words)
            };
            let given = commands.iter().map(|command| scope.spawn(move || give(command)));
            let given: Vec<_> = given.collect();
            given.into_iter().map(|one| one.join().expect("it does not panic")).collect()
        });
        for (command, answer) in commands.iter().zip(answers) {
            let answer = answer?;
            self.told.push(format!("{}: {}", command.join(" "), answer.stderr.trim()));
            ensure!(
                answer.is_success() || !answer.stderr.trim().is_empty(),
                "{} was refused without a reason",
                command.join(" ")
            );
        }
        Ok(())
    }

    fn misfortune(&mut self) -> Result<()> {
        let Some(at) = self.victim()? else { return Ok(()) };
        let folder = &mut self.folders[at];
        let what = match self.random.below(3) {
            0 => {
                folder.set_error(EIO);
                folder.fault = Some(Fault::Errors);
                "errors"
            }
            1 => {
                folder.fault = Some(Fault::Hang { _until: folder.files.stall() });
                "a hang"
            }
            _ => {
                folder.pull()?;
                "pulled"
            }
        };
        self.told.push(format!("folder {at}: {what}"));
        Ok(())
    }

    fn mend(&mut self, at: usize) -> Result<()> {
        if self.folders[at].fault.is_some() {
            self.told.push(format!("folder {at} works again"));
        }
        self.folders[at].mend()
    }

    /// A file system that hangs keeps whoever uses it from ending.
    fn mend_hangs(&mut self) -> Result<()> {
        for at in 0..self.folders.len() {
            if matches!(self.folders[at].fault, Some(Fault::Hang { .. })) {
                self.mend(at)?;
            }
        }
        Ok(())
    }

    fn kill(&mut self) -> Result<()> {
        self.mend_hangs()?;
        self.told.push("kill".to_owned());
        self.stop_load()?;
        self.array.kill()?;
        self.array.restart()?;
        self.start_load();
        Ok(())
    }

    /// Gives the pool away and takes it over again, in the middle of whatever is under way.
    fn move_house(&mut self) -> Result<()> {
        for at in 0..self.folders.len() {
            self.mend(at)?;
        }
        self.stop_load()?;
        let (mut devices, mut spares) = (Vec::new(), Value::Null);
        wait_until("the pool is exported", || {
            devices = self.members()?.into_iter().map(|member| member.device).collect();
            spares = self.pool()?["spares"].take();
            // It may be just changing.
            let exported = self.array.try_gantry(&["pool", "export", "p", "--yes"])?;
            Ok(exported.is_success())
        })?;
        self.told.push(format!("export, import of {}", devices.join(" ")));
        let mut import = vec!["pool", "import"];
        import.extend(devices.iter().map(String::as_str));
        self.array.gantry(&import)?;
        ensure!(self.pool()?["spares"] == spares, "spares were {spares}");
        self.start_load();
        Ok(())
    }

    fn event(&mut self) -> Result<()> {
        match self.random.below(26) {
            0..13 => self.administer()?,
            13..19 => self.misfortune()?,
            19..23 => {
                let at = self.random.below(self.folders.len() as u64) as usize;
                self.mend(at)?;
            }
            23 | 24 => self.kill()?,
            _ => self.move_house()?,
        }
        self.is_sound()?;
        self.pause(400);
        Ok(())
    }

    /// Whether each copy is current, and nobody leaves. What is away is given back.
    fn is_whole(&self) -> Result<bool> {
        self.is_sound()?;
        let members = self.members()?;
        for member in members.iter().filter(|member| member.state == "absent") {
            // It may be on its way by itself.
            self.array.try_gantry(&["pool", "return", "p", &member.device])?;
        }
        let has = |device: &str| members.iter().any(|other| other.device == device);
        let is_leaving = self.replaced.iter().any(|(old, new)| has(old) && has(new));
        let has_departure = !self.pool()?["departure"].is_null();
        let is_current = |member: &Member| member.state == "current";
        Ok(!is_leaving && !has_departure && members.iter().all(is_current))
    }

    /// Mends everything: then the pool becomes whole, and has one mirror of two copies again.
    fn end(&mut self) -> Result<()> {
        for at in 0..self.folders.len() {
            self.mend(at)?;
        }
        for spare in self.pool()?["spares"].as_array().context("spares")? {
            let spare = spare.as_str().context("a spare")?;
            // It may be stepping in.
            self.array.try_gantry(&["pool", "spare", "remove", "p", spare])?;
        }
        self.array.try_gantry(&["pool", "resilver", "p", "resume"])?;
        self.array.try_gantry(&["pool", "departure", "p", "resume"])?;
        wait_until("the pool is whole", || self.is_whole())?;
        self.replaced.clear();
        while let Some(last) = self.numbers()?.pop().filter(|number| *number > 0) {
            let last = last.to_string();
            self.array.gantry(&[
                "pool",
                "remove-device",
                "p",
                "--device",
                &last,
                "--until-gone",
            ])?;
            wait_until("the pool is whole", || self.is_whole())?;
        }
        self.make_pair()?;
        scrub_until_clean(&self.array, "p", 4)?;
        let tasks = self.array.gantry_json(&["task", "list"])?;
        let is_over = |task: &Value| task["state"] != "running";
        let tasks = tasks.as_array().context("tasks")?;
        ensure!(tasks.iter().all(is_over), "{tasks:#?}");
        self.load.as_ref().context("a load")?.wait_until_checked(&self.arena)?;
        self.clean_up()
    }

    /// Attaches or detaches until the one mirror has two members.
    fn make_pair(&mut self) -> Result<()> {
        loop {
            let members = self.members()?;
            match members.len() {
                2 => return Ok(()),
                1 => {
                    let new = self.new_device();
                    self.array.gantry(&["pool", "attach", "p", &new])?;
                }
                _ => wait_until("a member leaves", || {
                    // One that was replaced may be leaving just now: then this is refused.
                    let leaves = &members[0].device;
                    let left = self.array.try_gantry(&["pool", "detach", "p", leaves])?;
                    Ok(left.is_success())
                })?,
            }
            wait_until("the pool is whole", || self.is_whole())?;
        }
    }

    /// Removes files that are no devices of the pool any more.
    fn clean_up(&self) -> Result<()> {
        let members = self.members()?;
        for path in self.folders.iter().map(Folder::devices).collect::<Result<Vec<_>>>()?.concat() {
            let is_member = |member: &Member| member.device.ends_with(&*path.to_string_lossy());
            if !members.iter().any(is_member) {
                std::fs::remove_file(path)?;
            }
        }
        Ok(())
    }

    fn tell(&mut self) -> Result<()> {
        self.told.clear();
        for _ in 0..EVENTS {
            self.event()?;
        }
        self.end()
    }

    fn what_is_known(&self) -> String {
        let pool = self.array.gantry_json(&["pool", "show", "p"]);
        let tasks = self.array.gantry_json(&["task", "list"]);
        let log = self.array.log();
        format!("{}\n{pool:#?}\n{tasks:#?}\n{log}", self.told.join("\n"))
    }
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}

/// The name of a device in a folder.
fn device(folder: &Folder, number: u64) -> String {
    format!("file:{}", folder.files.file(&format!("d{number}.img")).display())
}

#[test]
fn a_pool_becomes_whole_whatever_an_administrator_does_while_devices_fail() -> Result<()> {
    let (stories, seed) = (setting("GANTRY_STORIES", 4)?, setting("GANTRY_STORY_SEED", 1)?);
    let mut story = Story::start(seed)?;
    story.start_load();
    for number in 0..stories {
        let told = story.tell();
        if let Err(error) = told {
            let known = story.what_is_known();
            story.mend_hangs()?;
            let host = story.load.take().filter(Load::has_ended).map(|load| load.stop().err());
            anyhow::bail!("story {number}: {error:#}\n{known}\n{host:?}");
        }
        println!("story {number}:\n{}", story.told.join("\n"));
    }
    story.stop_load()?;
    let pool = story.array.gantry_json(&["pool", "show", "p"])?;
    ensure!(text(&pool, "/state")? == "ready", "{pool}");
    ensure!(number(&pool, "/bad_blocks").unwrap_or(0) == 0, "{pool}");
    Ok(())
}
