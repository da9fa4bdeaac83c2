//! Subcommands of `esxcli` and `esxcfg-advcfg`, with ESXi's output.

mod adapters;
mod claimrule;
mod devices;
mod output;
mod processes;
mod settings;
mod volumes;
mod words;

use anyhow::{Context, Result};

use crate::esxi::state::Host;
pub(crate) use devices::{array_type, display_name, vml};
use output::Format;
pub use settings::advcfg;
use words::{Found, Word, number, switch, text, truth};

const DEVICE: words::Opt = text("-d", "device", "Only this device.");
const ADAPTER: words::Opt = text("-A", "adapter", "The adapter: vmhba64.");
const CLASS: words::Opt = text("-c", "claimrule-class", "The class of rules: VAAI.").required();

/// What the namespaces are about.
const NAMESPACES: [(&str, &str); 32] = [
    ("iscsi", "The software iSCSI initiator."),
    ("iscsi adapter", "iSCSI adapters."),
    ("iscsi adapter discovery", "How targets are found."),
    ("iscsi adapter discovery sendtarget", "Portals that are asked for their targets."),
    ("iscsi adapter discovery statictarget", "Targets that are named."),
    ("iscsi adapter target", "Targets that were found."),
    ("iscsi session", "Sessions with targets."),
    ("iscsi software", "Whether the initiator is on."),
    ("storage", "Devices, paths and datastores."),
    ("storage core", "Adapters, devices, paths and claim rules."),
    ("storage core adapter", "Adapters through which devices are reached."),
    ("storage core claimrule", "Rules for the offloads of some arrays."),
    ("storage core device", "Devices."),
    ("storage core device capacity", "Sizes of devices."),
    ("storage core device detached", "Devices that are off."),
    ("storage core device vaai", "Offloads of devices."),
    ("storage core device vaai status", "What is believed of offloads."),
    ("storage core path", "Paths to devices."),
    ("storage filesystem", "Mounted datastores."),
    ("storage nmp", "Multipathing."),
    ("storage nmp device", "Devices and how their paths are used."),
    ("storage nmp psp", "Policies by which paths are chosen."),
    ("storage nmp psp roundrobin", "The policy VMW_PSP_RR."),
    ("storage nmp psp roundrobin deviceconfig", "Its settings."),
    ("storage vmfs", "VMFS volumes."),
    ("storage vmfs extent", "Devices of volumes."),
    ("storage vmfs lockmode", "How volumes lock."),
    ("system", "The host."),
    ("system settings", "Settings."),
    ("system settings advanced", "Advanced settings."),
    ("vm", "Virtual machines."),
    ("vm process", "Virtual machines that run."),
];

/// All commands, in the order of their names.
static TREE: [Word; 34] = [
    Word {
        path: "iscsi adapter discovery rediscover",
        does: "Asks all portals for their targets again.",
        options: &[ADAPTER],
        run: adapters::rediscover,
    },
    Word {
        path: "iscsi adapter discovery sendtarget add",
        does: "Adds a portal that is asked for its targets.",
        options: &[ADAPTER.required(), text("-a", "address", "IP[:PORT].").required()],
        run: adapters::sendtarget_add,
    },
    Word {
        path: "iscsi adapter discovery sendtarget list",
        does: "Lists the portals that are asked for their targets.",
        options: &[ADAPTER],
        run: adapters::sendtarget_list,
    },
    Word {
        path: "iscsi adapter discovery sendtarget remove",
        does: "Forgets a portal, and what it named.",
        options: &[ADAPTER.required(), text("-a", "address", "IP[:PORT].").required()],
        run: adapters::sendtarget_remove,
    },
    Word {
        path: "iscsi adapter discovery statictarget list",
        does: "Lists the targets that are named.",
        options: &[ADAPTER],
        run: adapters::statictarget_list,
    },
    Word {
        path: "iscsi adapter get",
        does: "Shows an adapter.",
        options: &[ADAPTER.required()],
        run: adapters::get,
    },
    Word {
        path: "iscsi adapter list",
        does: "Lists the adapters.",
        options: &[ADAPTER],
        run: adapters::list,
    },
    Word {
        path: "iscsi adapter target list",
        does: "Lists the targets that were found.",
        options: &[ADAPTER],
        run: adapters::target_list,
    },
    Word {
        path: "iscsi session list",
        does: "Lists the sessions.",
        options: &[ADAPTER],
        run: adapters::session_list,
    },
    Word {
        path: "iscsi software get",
        does: "Says whether the initiator is on.",
        options: &[],
        run: adapters::software_get,
    },
    Word {
        path: "iscsi software set",
        does: "Turns the initiator on or off.",
        options: &[truth("-e", "enabled", "Whether it is on.").required()],
        run: adapters::software_set,
    },
    Word {
        path: "storage core adapter list",
        does: "Lists the adapters.",
        options: &[],
        run: adapters::core_list,
    },
    Word {
        path: "storage core adapter rescan",
        does: "Looks for devices; what is believed of their offloads is forgotten.",
        options: &[
            ADAPTER,
            switch("-a", "all", "All adapters."),
            text("-t", "type", "What is looked for: add, all, delete or update."),
        ],
        run: adapters::rescan,
    },
    Word {
        path: "storage core claimrule add",
        does: "Saves a rule: how XCOPY is cut for an array.",
        options: &[
            CLASS,
            number("-r", "rule", "Its number.").required(),
            text("-t", "type", "What it goes by: vendor.").required(),
            text("-V", "vendor", "The array's vendor, or *."),
            text("-M", "model", "The array's model, or *."),
            text("-P", "plugin", "The plug-in, for example VMW_VAAIP_T10.").required(),
            switch("-a", "xcopy-use-array-values", "Sizes of XCOPY as the array reports them."),
            switch("-s", "xcopy-use-multi-segs", "Several segments in one command."),
            number("-m", "xcopy-max-transfer-size", "MiB of one command."),
            number("-k", "xcopy-max-transfer-size-kib", "KiB of one command."),
        ],
        run: claimrule::add,
    },
    Word {
        path: "storage core claimrule list",
        does: "Lists the rules, loaded (runtime) and saved (file).",
        options: &[CLASS],
        run: claimrule::list,
    },
    Word {
        path: "storage core claimrule load",
        does: "Makes the saved rules count.",
        options: &[CLASS],
        run: claimrule::load,
    },
    Word {
        path: "storage core claimrule remove",
        does: "Forgets a rule.",
        options: &[CLASS, number("-r", "rule", "Its number.").required()],
        run: claimrule::remove,
    },
    Word {
        path: "storage core device capacity list",
        does: "Lists sizes and formats of the devices.",
        options: &[DEVICE],
        run: devices::capacity_list,
    },
    Word {
        path: "storage core device detached list",
        does: "Lists the devices that are off.",
        options: &[],
        run: devices::detached_list,
    },
    Word {
        path: "storage core device detached remove",
        does: "Forgets that a device is off.",
        options: &[DEVICE.required()],
        run: devices::detached_remove,
    },
    Word {
        path: "storage core device list",
        does: "Lists the devices.",
        options: &[DEVICE],
        run: devices::list,
    },
    Word {
        path: "storage core device set",
        does: "Turns a device on or off.",
        options: &[DEVICE.required(), text("-s", "state", "on or off.").required()],
        run: devices::set,
    },
    Word {
        path: "storage core device vaai status get",
        does: "Shows what is believed of the offloads of the devices.",
        options: &[DEVICE],
        run: devices::vaai_status,
    },
    Word {
        path: "storage core path list",
        does: "Lists the paths.",
        options: &[DEVICE, text("-p", "path", "Only this path, by either of its names.")],
        run: devices::path_list,
    },
    Word {
        path: "storage filesystem list",
        does: "Lists the datastores with their space.",
        options: &[],
        run: volumes::filesystem_list,
    },
    Word {
        path: "storage nmp device list",
        does: "Lists the devices with their paths and policies.",
        options: &[DEVICE],
        run: devices::nmp_list,
    },
    Word {
        path: "storage nmp psp roundrobin deviceconfig get",
        does: "Shows after how many commands the next path is used.",
        options: &[DEVICE.required()],
        run: devices::round_robin_get,
    },
    Word {
        path: "storage nmp psp roundrobin deviceconfig set",
        does: "Sets after how many commands the next path is used, for all devices of the host.",
        options: &[
            DEVICE,
            text("-t", "type", "What is counted: iops."),
            number("-I", "iops", "Commands on a path.").required(),
        ],
        run: devices::round_robin_set,
    },
    Word {
        path: "storage vmfs extent list",
        does: "Lists the devices of the volumes.",
        options: &[],
        run: volumes::extent_list,
    },
    Word {
        path: "storage vmfs lockmode list",
        does: "Lists how the volumes lock.",
        options: &[],
        run: volumes::lockmode_list,
    },
    Word {
        path: "storage vmfs unmap",
        does: "Gives the free blocks of a volume back to the array.",
        options: &[
            text("-l", "volume-label", "The volume, by its name."),
            text("-u", "volume-uuid", "The volume, by its identifier."),
            number("-n", "reclaim-unit", "Blocks at a time; 200 when left out."),
        ],
        run: volumes::unmap,
    },
    Word {
        path: "system settings advanced list",
        does: "Lists the settings.",
        options: &[
            text("-o", "option", "Only this one, by its path."),
            switch("-d", "delta", "Only changed ones."),
        ],
        run: settings::list,
    },
    Word {
        path: "system settings advanced set",
        does: "Changes a setting.",
        options: &[
            text("-o", "option", "Its path.").required(),
            number("-i", "int-value", "The new value."),
            switch("-d", "default", "The default becomes its value."),
        ],
        run: settings::set,
    },
    Word {
        path: "vm process list",
        does: "Lists the virtual machines that run on this host.",
        options: &[],
        run: processes::list,
    },
];

/// Each command with its options, and what it does.
pub fn subcommands() -> impl Iterator<Item = (String, &'static str)> {
    TREE.iter().map(|word| (words::usage(word), word.does))
}

/// Carries out `esxcli [--formatter=NAME] SUBCOMMAND`; returns what it prints.
///
/// # Errors
/// Unknown words, values that are not allowed, devices that do not answer.
pub fn run(host: &mut Host, words: &[String]) -> Result<String> {
    let (format, words) = formatter(words)?;
    match words::find(&TREE, &NAMESPACES, words)? {
        Found::Help(text) => Ok(text),
        Found::Command(word, options) => Ok(format.print(&(word.run)(host, &options)?)),
    }
}

/// The formatter before the words, and the words.
fn formatter(words: &[String]) -> Result<(Format, &[String])> {
    let (name, rest) = match words {
        [first, second, rest @ ..] if first == "--formatter" => (second.as_str(), rest),
        [first, rest @ ..] => match first.strip_prefix("--formatter=") {
            Some(name) => (name, rest),
            None => return Ok((Format::People, words)),
        },
        [] => return Ok((Format::People, words)),
    };
    let format = Format::parse(name);
    Ok((format.with_context(|| format!("Error: {name}: the formatters are csv, json, xml"))?, rest))
}

#[cfg(test)]
mod tests;
