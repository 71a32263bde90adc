//! `quorate node invite` and `quorate node join`: a new node becomes a member of a group that runs.
//!
//! Who joins knows one address and a token, which opens the group once. It gets the group's configuration and members for it, becomes
//! a member that executes, catches up, and only then votes: so the group never waits for a node that lacks what was decided.

use crate::error::{CliError, code};
use crate::group::{GroupAccess, GroupArgs};
use crate::groups;
use crate::newcomer::{FILE, Newcomer, NodeNumbers};
use crate::node::random;
use crate::own_node::OwnNode;
use crate::print;
use crate::seconds;
use crate::status;
use crate::view_deciding;
use clap::{Args, ValueEnum};
use quorate_client::{AdminConnection, Answer, Operation};
use quorate_node::{GroupConfiguration, MemberConfig, NodeConfig};
use quorate_types::{
    Duration as Span, GroupId, Level, Levels, MemberRole, NodeId, Secret, ViewChange, ViewNumber,
};
use quorate_wire::{AdminReply, AdminRequest, SPEAKS};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// What a token begins with.
const TOKEN: &str = "quorate-join-";

/// How long one node may take to answer.
const ANSWER_MAX: Duration = Duration::from_millis(2_000);

/// Between two looks at how far the new node is.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Let one node join: prints a token, which opens the group once.
///
/// Who has the token is told everything that a member knows, so give it to nobody else. `quorate node join` takes it.
#[derive(Args, Clone, Debug)]
pub(crate) struct InviteArgs {
    /// Seconds for which the token is good.
    #[arg(long, default_value_t = 3600.0, value_parser = seconds::span)]
    lasts: f64,
    /// Seconds to wait until the group has decided it.
    #[arg(long, default_value_t = 30.0, value_parser = seconds::span)]
    timeout: f64,
    #[command(flatten)]
    group: GroupArgs,
}

/// Make a new node, let it join a group that runs, and run it until SIGTERM or SIGINT.
///
/// The node executes as soon as it is a member, catches up, and votes then. Prints a line when it has joined. Once it has, start it
/// again with `quorate node run --config DIR/node.toml`; the same command as before works too.
#[derive(Args, Clone, Debug)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct JoinArgs {
    /// What `quorate node invite` printed. Others on this machine see it while the node runs, unless the variable has it.
    #[arg(long, env = "QUORATE_JOIN_TOKEN", hide_env_values = true)]
    token: String,
    /// The node's directory; it must be empty or not exist, or be that of an earlier try.
    #[arg(long)]
    pub(crate) dir: PathBuf,
    /// What the node does in the group. `acceptor` alone makes a witness: it votes and keeps the log and the newest snapshot, has no
    /// objects and starts no host process. The group must be at level 22.
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_value = "replica,acceptor"
    )]
    roles: Vec<JoinRole>,
    /// The node's number, below 64. Default: one that no member has, and with TLS, that the certificate names.
    #[arg(long, value_parser = clap::value_parser!(u16).range(0..64))]
    pub(crate) node: Option<u16>,
    /// Where the node listens; port 0: one that is free.
    #[arg(long, default_value = "127.0.0.1:0", value_name = "ADDRESS:PORT")]
    pub(crate) listen: SocketAddr,
    /// Where the others and clients reach it. Default: where it listens.
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) address: Option<String>,
    /// Where its admin port listens. Default: none.
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(crate) admin: Option<SocketAddr>,
    /// Directories in which Python looks for the objects' modules. Default: those of the other nodes.
    #[arg(long, value_name = "DIR")]
    pub(crate) path: Vec<PathBuf>,
    /// The Python interpreter of the host process.
    #[arg(long, env = "QUORATE_PYTHON", value_name = "PATH")]
    pub(crate) python: Option<PathBuf>,
    /// Listen beyond loopback without TLS: anyone on the network can then read and forge messages.
    #[arg(long)]
    pub(crate) insecure: bool,
    /// Behave as a version that speaks at most this level. Default: the newest.
    #[arg(long, value_name = "LEVEL", value_parser = crate::speaks::upto)]
    speaks: Option<Levels>,
    /// Seconds until it must have joined.
    #[arg(long, default_value_t = 120.0, value_parser = seconds::span)]
    timeout: f64,
    #[command(flatten)]
    pub(crate) group: GroupArgs,
}

const EXIT_CODES: &str = "\
The files of --tls-ca, --tls-cert and --tls-key are those of the node itself: `quorate certs --dir DIR --node N` makes them. They are
checked before the group is asked for anything.

Exit codes:
  0  asked to stop, after it had joined
  1  the system or a peer refused something
  2  wrong usage or certificates
  4  no majority of the group answers
  5  the time ran out, or it was asked to stop before it had joined: the same command goes on where this one ended
  6  the group does not accept the certificate, or is of another version
  7  the group is at a level that this version does not speak, or --speaks; the token was used, its time is over or the group never gave it; the number is a member's; the directory is another's";

/// What a node does in a group.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
enum JoinRole {
    /// Executes and answers.
    Replica,
    /// Votes and remembers.
    Acceptor,
    /// Answers DNS; this version has no name servers.
    Names,
}

impl JoinArgs {
    /// What it is for the group.
    pub(crate) fn role(&self) -> MemberRole {
        match self.roles.contains(&JoinRole::Replica) {
            true => MemberRole::Replica,
            false => MemberRole::Witness,
        }
    }

    /// Refuses a witness where the members may not know what that is.
    fn check_witness(&self, access: &GroupAccess) -> Result<(), CliError> {
        if self.role() == MemberRole::Replica {
            return Ok(());
        }
        let view = status::view_of_group(&access.endpoint, ANSWER_MAX, access.tls())?;
        let (level, needed) = (Level(view.level), Level::WITNESSES);
        if level >= needed {
            return Ok(());
        }
        Err(CliError::conflict(format!(
            "--roles acceptor: the group is at level {level}, and witnesses take level {needed}: nothing has changed"
        ))
        .advise(format!("raise it: quorate view set level={needed}, or join as a replica too")))
    }
}

/// Prints a token.
pub(crate) fn invite(args: &InviteArgs, as_json: bool) -> Result<(), CliError> {
    let access = groups::first_group(&args.group)?;
    let secret = [random()?.to_le_bytes(), random()?.to_le_bytes()].concat();
    let secret = Secret::new(secret.try_into().expect("two halves"));
    let client = access.connect(seconds::duration(args.timeout))?;
    let lasts = Span((args.lasts * 1e9) as u64);
    let invitation = secret.hash();
    match client.perform(Operation::Invite { invitation, lasts }) {
        Ok(Answer::Checkpointed(_)) => {}
        Ok(Answer::Called(_) | Answer::Read { .. }) => {
            return Err(CliError::failed("the node did not answer with a slot"));
        }
        Err(error) => return Err(CliError::call(error)),
    }
    let token = text_of(&secret);
    match as_json {
        true => print::line(json!({ "token": token, "lasts": args.lasts })),
        false => print::line(token),
    }
}

fn text_of(secret: &Secret) -> String {
    let digits: String = secret.bytes().iter().map(|b| format!("{b:02x}")).collect();
    format!("{TOKEN}{digits}")
}

fn secret_of(token: &str) -> Result<Secret, CliError> {
    let read = || {
        let digits = token.trim().strip_prefix(TOKEN)?;
        let byte = |at: usize| u8::from_str_radix(digits.get(2 * at..2 * at + 2)?, 16).ok();
        let bytes: Vec<u8> = (0..Secret::BYTES).map_while(byte).collect();
        let bytes = bytes
            .try_into()
            .ok()
            .filter(|_| digits.len() == 2 * Secret::BYTES)?;
        Some(Secret::new(bytes))
    };
    read().ok_or_else(|| {
        CliError::usage(format!(
            "--token takes what quorate node invite printed: {TOKEN} and {} hexadecimal digits",
            2 * Secret::BYTES
        ))
    })
}

/// Makes the node, lets it join, and runs it.
pub(crate) fn join(args: &JoinArgs, as_json: bool) -> Result<(), CliError> {
    let secret = secret_of(&args.token)?;
    let (executes, votes) = (JoinRole::Replica, JoinRole::Acceptor);
    if !args
        .roles
        .iter()
        .any(|role| [executes, votes].contains(role))
    {
        return Err(CliError::usage(
            "--roles: a member executes, votes, or both: add replica or acceptor to the list",
        ));
    }
    if args.roles.contains(&JoinRole::Names) {
        eprintln!("quorate: this version has no name servers: the role names has no effect");
    }
    let node = OwnNode::new(as_json)?;
    let until = Instant::now() + seconds::duration(args.timeout);
    let access = groups::first_group(&args.group)?;
    args.check_witness(&access)?;
    let mut newcomer = match Newcomer::earlier(args)? {
        Some(newcomer) => newcomer,
        None => {
            let numbers = NodeNumbers::of(args)?;
            Newcomer::make(args, numbers, &ask_configuration(&access, secret, until)?)?
        }
    };
    check_cluster(&access, &newcomer)?;
    // A token that was used tells nothing: then the node reaches those that it knows.
    if newcomer.has_run()
        && let Ok(told) = ask_once(&access, secret).0
    {
        newcomer.meet(&told)?;
    }
    let number = become_member(args, &access, (&mut newcomer, secret), until)?;
    let config = newcomer.into_config();
    let own = config.own_member().expect("checked when it was read");
    node.start(&args.dir.join(FILE), args.insecure, args.speaks)?;
    let voted = match caught_up(&access, own, number, &node, until) {
        Ok(()) if args.roles.contains(&JoinRole::Acceptor) => {
            view_deciding::let_vote(&access, own.node, until)
        }
        other => other.map(|()| number),
    };
    let told = voted.and_then(|view| {
        node.has_joined();
        tell(own, view, as_json)
    });
    if let Err(error) = told {
        // Nobody asked it to stop but this.
        node.kill();
        return Err(error);
    }
    match node.wait().map(|status| status.code()) {
        Ok(Some(0)) => Ok(()),
        Ok(Some(ended)) => Err(CliError::with_code(
            u8::try_from(ended).unwrap_or(code::FAILED),
            "the node ended: it has said why",
        )),
        Ok(None) => Err(CliError::failed("the node was killed")),
        Err(error) => Err(CliError::failed(format!(
            "the node cannot be awaited: {error}"
        ))),
    }
}

fn tell(own: &MemberConfig, view: u64, as_json: bool) -> Result<(), CliError> {
    let MemberConfig { node, address, .. } = own;
    match as_json {
        true => print::line(json!({ "node": node, "address": address, "view": view })),
        false => print::line(format!(
            "node {node} has joined in view {view} and serves {address}"
        )),
    }
}

/// Lets a member that is down know who the members are, whatever it knew when it went down.
pub(crate) fn meet(endpoint: &str, token: &str, config: &NodeConfig) -> Result<(), CliError> {
    let access = GroupAccess::of_member(endpoint, config)?;
    let until = Instant::now() + ANSWER_MAX;
    let told = ask_configuration(&access, secret_of(token)?, until)?;
    let noted = config.note_members(&told);
    noted.map(drop).map_err(|error| CliError::node(&error))
}

/// Asks the group who it is, as only an invited node is told. A node that is behind does not know the token yet, and one that is busy
/// does not answer in time, so they are asked again before the token counts as a wrong one.
fn ask_configuration(
    access: &GroupAccess,
    secret: Secret,
    until: Instant,
) -> Result<GroupConfiguration, CliError> {
    let begun = Instant::now();
    let (caught_up, until) = (begun + ANSWER_MAX, until.min(begun + 5 * ANSWER_MAX));
    loop {
        let (told, has_all) = ask_once(access, secret);
        let now = Instant::now();
        if told.is_ok() || has_all && now >= caught_up || now >= until {
            return told;
        }
        std::thread::sleep(view_deciding::AGAIN_EVERY);
    }
}

/// Asks each node, until one tells. Also whether all of them answered.
fn ask_once(access: &GroupAccess, secret: Secret) -> (Result<GroupConfiguration, CliError>, bool) {
    let (mut last, mut has_all) = (None, true);
    for address in &access.endpoint.addresses {
        let opened = AdminConnection::open(address, GroupId::FIRST, ANSWER_MAX, access.tls());
        let asked = opened.and_then(|mut node| node.ask(&AdminRequest::Configuration { secret }));
        match asked {
            Ok(AdminReply::Configuration(text)) => {
                let read = serde_json::from_slice(&text).map_err(|error| {
                    CliError::failed(format!("the group's configuration cannot be read: {error}"))
                });
                return (read, true);
            }
            Ok(_) => last = Some(view_deciding::not_invited()),
            Err(error) => {
                has_all = false;
                last = last.or(Some(CliError::connect(error)));
            }
        }
    }
    let error = last.expect("an endpoint names at least one address");
    (Err(error), has_all)
}

/// An earlier try may have been another group's.
fn check_cluster(access: &GroupAccess, newcomer: &Newcomer) -> Result<(), CliError> {
    let report = status::first_report(&access.endpoint, ANSWER_MAX, access.tls())?;
    let there = report.welcome.cluster;
    if there == newcomer.cluster() {
        return Ok(());
    }
    let text = format!(
        "the directory is that of a node of cluster {:016x}, and {} is cluster {:016x}",
        newcomer.cluster().0,
        access.endpoint,
        there.0
    );
    Err(CliError::conflict(text).advise("name another --dir, or the endpoint of its group"))
}

/// Has the view changed that names the node, unless it is one already. Returns the number of the view. Where somebody else has taken
/// the node's number meanwhile, it takes another one.
fn become_member(
    args: &JoinArgs,
    access: &GroupAccess,
    (newcomer, secret): (&mut Newcomer, Secret),
    until: Instant,
) -> Result<u64, CliError> {
    loop {
        let document = status::of_group(&access.endpoint, ANSWER_MAX, access.tls())?;
        let view = status::view_in(&document)?;
        if newcomer.is_named_in(&view) {
            newcomer.check_wish(args)?;
            return Ok(view.number);
        }
        if newcomer.needs_number(&view) {
            let group = ask_configuration(access, secret, until)?;
            newcomer.take_number(args, (&group, &view))?;
        }
        let change = ViewChange {
            after: ViewNumber(view.number),
            acceptors: view.acceptors.iter().copied().map(NodeId).collect(),
            window: view.window,
        };
        let speaks = spoken(args, asked(&document, Level(view.level)))?;
        let join = Operation::Join {
            change,
            member: newcomer.own(),
            secret,
            speaks,
            role: args.role(),
        };
        let left = until.saturating_duration_since(Instant::now());
        match view_deciding::perform(access, left, (view.number, &join)) {
            Ok(_) => return Ok(view.number + 1),
            // Another change came first: there is a newer view to change.
            Err(error)
                if error.code == code::CONFLICT
                    && Instant::now() < until
                    && is_changed(access, view.number)? => {}
            Err(error) => return Err(error),
        }
    }
}

/// What the members ask a node to speak: the level of the view, or a higher one while their logs still need that.
fn asked(document: &Value, level: Level) -> Level {
    let nodes = document["nodes"].as_array().into_iter().flatten();
    let asked = nodes.filter_map(|node| u16::try_from(node["asks"].as_u64()?).ok());
    asked.map(Level).fold(level, Level::max)
}

/// What the new node says that it speaks to a group that asks for `level`, if it speaks that.
fn spoken(args: &JoinArgs, level: Level) -> Result<Levels, CliError> {
    let speaks = args.speaks.unwrap_or(SPEAKS);
    if !speaks.has(level) {
        return Err(CliError::conflict(format!(
            "the group asks for level {level}, and this node speaks {speaks}: nothing has changed"
        ))
        .advise("join with a version that speaks the level of the group"));
    }
    // A group at the lowest level may have nodes that read no other form.
    Ok(match level {
        Level::UNNAMED => Levels::UNNAMED,
        _ => speaks,
    })
}

fn is_changed(access: &GroupAccess, number: u64) -> Result<bool, CliError> {
    let view = status::view_of_group(&access.endpoint, ANSWER_MAX, access.tls())?;
    Ok(view.number != number)
}

/// Waits until the node serves in a view that names it.
fn caught_up(
    access: &GroupAccess,
    own: &MemberConfig,
    number: u64,
    process: &OwnNode,
    until: Instant,
) -> Result<(), CliError> {
    loop {
        let report =
            quorate_client::node_status(&own.address, GroupId::FIRST, ANSWER_MAX, access.tls());
        if let Ok(report) = report {
            let status = status::parse(&report)?;
            let is_in = status["view"]["number"].as_u64() >= Some(number);
            if is_in && (status["is_serving"] == true || status["is_keeping"] == true) {
                return Ok(());
            }
        }
        if process.has_ended() {
            return Err(CliError::failed(
                "the node ended before it had joined: it has said why",
            ));
        }
        if Instant::now() >= until {
            let text = format!(
                "node {} is a member, and has not caught up in time",
                own.node
            );
            return Err(CliError::with_code(code::OUTCOME_UNKNOWN, text)
                .advise("say the same command again"));
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_read_as_it_was_printed_and_nothing_else_is_one() {
        let secret = Secret::new(*b"0123456789abcdef");
        let token = text_of(&secret);
        assert!(secret_of(&format!("{token}\n")).unwrap() == secret);
        for wrong in [
            "",
            "quorate-join-",
            &token[..token.len() - 1],
            &token[1..],
            &format!("{token}0"),
        ] {
            assert_eq!(secret_of(wrong).unwrap_err().code, code::USAGE, "{wrong}");
        }
    }

    #[test]
    fn a_node_joins_with_what_logs_still_need_after_the_group_went_to_a_lower_level() {
        let nodes = |asks: [u16; 2]| json!({"nodes": [{"asks": asks[0]}, {"up": false}, {"asks": asks[1]}]});
        let level = |asks| asked(&nodes(asks), Level(19));
        assert_eq!(level([19, 19]), Level(19));
        assert_eq!(level([19, 20]), Level(20));
    }
}
