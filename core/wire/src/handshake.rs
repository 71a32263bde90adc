//! The first frames of a connection: `Hello`, and `Welcome` or `Reject`.
//!
//! `Hello` and `Reject` keep their layout in every version, so that nodes of any versions can refuse each
//! other with a reason. Additions of later versions go into `Hello::extra`. `Welcome` has the layout of the
//! version it names. Nothing is decided here: the transport compares and refuses.

use crate::WireError;
use crate::codec::{Reader, put_bytes, put_list, put_name, put_option, put_text};
use crate::limits::{ADDRESS_BYTES_MAX, GROUPS_MAX, NAME_BYTES_MAX, OBJECTS_MAX, TEXT_BYTES_MAX};
use crate::words::{put_node, take_node};
use bytes::{BufMut, Bytes, BytesMut};
use quorate_types::{
    ClusterId, GroupId, Incarnation, Level, Levels, NodeId, NodeSet, ObjectId, ViewNumber,
};

/// The newest protocol version that this build speaks.
pub const VERSION: u16 = 29;

/// The oldest protocol version that this build speaks.
pub const VERSION_MIN: u16 = 19;

/// The levels that this build speaks: its protocol versions.
pub const SPEAKS: Levels = match Levels::new(Level(VERSION_MIN), Level(VERSION)) {
    Some(levels) => levels,
    None => panic!("the oldest version is not above the newest"),
};

/// First bytes of every Hello: not a TLS record, not HTTP.
const MAGIC: [u8; 4] = *b"\xf1QRT";

/// The name of a node in its certificate, where connections are sealed by TLS.
#[must_use]
pub fn node_name(node: NodeId) -> String {
    format!("node-{}.quorate", node.0)
}

/// Who connects, and what they speak.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Hello {
    /// The oldest version the sender speaks.
    pub version_min: u16,
    /// The newest version the sender speaks.
    pub version_max: u16,
    /// The cluster the sender belongs to or means; `None` takes any.
    pub cluster: Option<ClusterId>,
    /// As what the sender comes.
    pub role: HelloRole,
    /// The sender's software, for logs.
    pub software: String,
    /// Fields of later versions, ignored by this one.
    pub extra: Bytes,
}

/// As what somebody connects.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum HelloRole {
    /// A node of the cluster.
    Node {
        /// Which one.
        node: NodeId,
        /// Which life of its data directory. Not told: nodes prove that they know it.
        incarnation: Incarnation,
        /// Which start of that directory; an older boot's connection is stale.
        boot: u64,
        /// The groups it shares.
        groups: Vec<GroupId>,
    },
    /// A client of one group.
    Client {
        /// Which group.
        group: GroupId,
    },
}

impl Hello {
    /// What the sender speaks; `None` if that is nothing.
    #[must_use]
    pub fn speaks(&self) -> Option<Levels> {
        Levels::new(Level(self.version_min), Level(self.version_max))
    }

    /// Appends the body of a frame of kind `Hello`.
    ///
    /// ```
    /// use bytes::{Bytes, BytesMut};
    /// use quorate_types::{ClusterId, GroupId, Level};
    /// use quorate_wire::{Hello, HelloRole, SPEAKS, VERSION, VERSION_MIN};
    ///
    /// let hello = Hello {
    ///     version_min: VERSION_MIN,
    ///     version_max: VERSION + 1,
    ///     cluster: Some(ClusterId(7)),
    ///     role: HelloRole::Client { group: GroupId(1) },
    ///     software: "example".into(),
    ///     extra: Bytes::new(),
    /// };
    /// let mut body = BytesMut::new();
    /// hello.put(&mut body);
    /// assert_eq!(Hello::take(&body.freeze())?, hello);
    /// let speaks = hello.speaks().expect("the oldest is not above the newest");
    /// assert_eq!(speaks.common(SPEAKS), Some(Level(VERSION)));
    /// # Ok::<(), quorate_wire::WireError>(())
    /// ```
    pub fn put(&self, buf: &mut BytesMut) {
        buf.put_slice(&MAGIC);
        buf.put_u16_le(self.version_min);
        buf.put_u16_le(self.version_max);
        put_option(buf, self.cluster.as_ref(), |buf, cluster| {
            buf.put_u64_le(cluster.0);
        });
        match &self.role {
            HelloRole::Node {
                node,
                incarnation,
                boot,
                groups,
            } => {
                buf.put_u8(1);
                put_node(buf, *node);
                buf.put_u64_le(incarnation.0);
                buf.put_u64_le(*boot);
                put_list(buf, groups, |buf, group| buf.put_u32_le(group.0));
            }
            HelloRole::Client { group } => {
                buf.put_u8(2);
                buf.put_u32_le(group.0);
            }
        }
        put_text(buf, &self.software, NAME_BYTES_MAX);
        put_bytes(buf, &self.extra);
    }

    /// Reads the body of a frame of kind `Hello`.
    ///
    /// # Errors
    /// When it is not one, of any version.
    pub fn take(body: &Bytes) -> Result<Hello, WireError> {
        let mut r = Reader::new(body);
        let magic: [u8; 4] = *r.array("magic number")?;
        if magic != MAGIC {
            return Err(WireError::OutOfRange {
                what: "magic number",
                value: u64::from(u32::from_le_bytes(magic)),
            });
        }
        let hello = Hello {
            version_min: r.u16("oldest version")?,
            version_max: r.u16("newest version")?,
            cluster: r.option("cluster", |r| r.u64("cluster").map(ClusterId))?,
            role: take_role(&mut r)?,
            software: r.text("software", NAME_BYTES_MAX)?,
            extra: r.bytes("extra fields")?,
        };
        r.end("hello")?;
        Ok(hello)
    }
}

fn take_role(r: &mut Reader<'_>) -> Result<HelloRole, WireError> {
    match r.u8("role")? {
        1 => Ok(HelloRole::Node {
            node: take_node(r)?,
            incarnation: Incarnation(r.u64("incarnation")?),
            boot: r.counter("boot")?,
            groups: r.list("groups", GROUPS_MAX, 4, |r| r.u32("group").map(GroupId))?,
        }),
        2 => Ok(HelloRole::Client {
            group: GroupId(r.u32("group")?),
        }),
        tag => Err(WireError::UnknownTag { what: "role", tag }),
    }
}

/// Lets in: who answers, and what a client needs to begin.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Welcome {
    /// The version spoken from here on.
    pub version: u16,
    /// The answering node's cluster.
    pub cluster: ClusterId,
    /// The answering node.
    pub node: NodeId,
    /// Which life of its data directory. Not told: nodes prove that they know it.
    pub incarnation: Incarnation,
    /// Which start of that directory.
    pub boot: u64,
    /// The group the rest speaks of.
    pub group: GroupId,
    /// The view in force there, as far as the node knows.
    pub view: ViewNumber,
    /// The view's members and where they are reached, `host:port`.
    pub members: Vec<(NodeId, String)>,
    /// The group's objects.
    pub objects: Vec<ObjectEntry>,
    /// Who leads, as far as the node knows.
    pub leader: Option<NodeId>,
}

/// An object as a client sees it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ObjectEntry {
    /// Its number in calls.
    pub id: ObjectId,
    /// What clients call it.
    pub name: String,
    /// `module:Class`, or `rust:counter` and the like.
    pub class: String,
}

impl Welcome {
    /// Appends the body of a frame of kind `Welcome`.
    pub fn put(&self, buf: &mut BytesMut) {
        buf.put_u16_le(self.version);
        buf.put_u64_le(self.cluster.0);
        put_node(buf, self.node);
        buf.put_u64_le(self.incarnation.0);
        buf.put_u64_le(self.boot);
        buf.put_u32_le(self.group.0);
        buf.put_u64_le(self.view.0);
        put_list(buf, &self.members, |buf, (node, address)| {
            put_node(buf, *node);
            put_name(buf, address, ADDRESS_BYTES_MAX);
        });
        put_list(buf, &self.objects, |buf, object| {
            buf.put_u32_le(object.id.0);
            put_name(buf, &object.name, NAME_BYTES_MAX);
            put_name(buf, &object.class, NAME_BYTES_MAX);
        });
        put_option(buf, self.leader.as_ref(), |buf, node| put_node(buf, *node));
    }

    /// Reads the body of a frame of kind `Welcome`.
    ///
    /// # Errors
    /// When it is not one of a version this build speaks.
    pub fn take(body: &Bytes) -> Result<Welcome, WireError> {
        let mut r = Reader::new(body);
        let version = r.u16("version")?;
        if !(VERSION_MIN..=VERSION).contains(&version) {
            return Err(WireError::UnknownVersion {
                what: "the protocol",
                version,
            });
        }
        let welcome = Welcome {
            version,
            cluster: ClusterId(r.u64("cluster")?),
            node: take_node(&mut r)?,
            incarnation: Incarnation(r.u64("incarnation")?),
            boot: r.counter("boot")?,
            group: GroupId(r.u32("group")?),
            view: ViewNumber(r.counter("view")?),
            members: r.list("members", usize::from(NodeSet::CAPACITY), 4, |r| {
                Ok((take_node(r)?, r.text("address", ADDRESS_BYTES_MAX)?))
            })?,
            objects: r.list("objects", OBJECTS_MAX, 8, |r| {
                Ok(ObjectEntry {
                    id: ObjectId(r.u32("object")?),
                    name: r.text("object name", NAME_BYTES_MAX)?,
                    class: r.text("object class", NAME_BYTES_MAX)?,
                })
            })?,
            leader: r.option("leader", take_node)?,
        };
        r.end("welcome")?;
        Ok(welcome)
    }
}

/// Why a connection is refused or ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RejectReason {
    /// No version in common.
    Version,
    /// Another cluster.
    Cluster,
    /// The node serves no such group.
    Group,
    /// The sender is not the node, or not the life of it, that the view names.
    Identity,
    /// A newer boot of the sender is known.
    StaleBoot,
    /// The node takes no further connections.
    Full,
    /// What was sent cannot be read.
    Malformed,
    /// The node stops, or does not serve the group at present: go to another one.
    Stopping,
    /// The sender may not do this.
    Forbidden,
    /// The sender is no member of the group for this node.
    NotAMember,
    /// The node does not serve the group: the Welcome before has said who does.
    Elsewhere,
    /// What is to be said now is of a level that the sender does not read; later that may be over.
    Unreadable,
    /// A reason of a later version.
    Other(u8),
}

/// The words of [`Reject::not_a_member`], before the number of the view.
const NAMES_NOT: &str = "you are not named by view ";

impl RejectReason {
    fn number(self) -> u8 {
        match self {
            RejectReason::Version => 1,
            RejectReason::Cluster => 2,
            RejectReason::Group => 3,
            RejectReason::Identity => 4,
            RejectReason::StaleBoot => 5,
            RejectReason::Full => 6,
            RejectReason::Malformed => 7,
            RejectReason::Stopping => 8,
            RejectReason::Forbidden => 9,
            RejectReason::NotAMember => 10,
            RejectReason::Elsewhere => 11,
            RejectReason::Unreadable => 12,
            RejectReason::Other(number) => number,
        }
    }

    fn of(number: u8) -> RejectReason {
        match number {
            1 => RejectReason::Version,
            2 => RejectReason::Cluster,
            3 => RejectReason::Group,
            4 => RejectReason::Identity,
            5 => RejectReason::StaleBoot,
            6 => RejectReason::Full,
            7 => RejectReason::Malformed,
            8 => RejectReason::Stopping,
            9 => RejectReason::Forbidden,
            10 => RejectReason::NotAMember,
            11 => RejectReason::Elsewhere,
            12 => RejectReason::Unreadable,
            number => RejectReason::Other(number),
        }
    }
}

/// Refuses, with a reason for machines and one for people.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reject {
    /// For machines.
    pub reason: RejectReason,
    /// For people; cut after [`TEXT_BYTES_MAX`] bytes.
    pub text: String,
}

impl Reject {
    /// Says to a node that a view does not name it.
    #[must_use]
    pub fn not_a_member(view: ViewNumber) -> Reject {
        Reject {
            reason: RejectReason::NotAMember,
            text: format!("{NAMES_NOT}{}", view.0),
        }
    }

    /// The view that does not name who is refused, if that is why.
    ///
    /// ```
    /// use quorate_types::ViewNumber;
    /// use quorate_wire::{Reject, RejectReason};
    /// let refused = Reject::not_a_member(ViewNumber(7));
    /// assert_eq!(refused.without_you(), Some(ViewNumber(7)));
    /// let full = Reject { reason: RejectReason::Full, text: refused.text };
    /// assert_eq!(full.without_you(), None);
    /// ```
    #[must_use]
    pub fn without_you(&self) -> Option<ViewNumber> {
        let number = self.text.strip_prefix(NAMES_NOT)?;
        let is_why = self.reason == RejectReason::NotAMember;
        number.parse().ok().filter(|_| is_why).map(ViewNumber)
    }

    /// Appends the body of a frame of kind `Reject`.
    pub fn put(&self, buf: &mut BytesMut) {
        buf.put_u8(self.reason.number());
        put_text(buf, &self.text, TEXT_BYTES_MAX);
    }

    /// Reads the body of a frame of kind `Reject`.
    ///
    /// # Errors
    /// When it is not one, of any version.
    pub fn take(body: &Bytes) -> Result<Reject, WireError> {
        let mut r = Reader::new(body);
        let reject = Reject {
            reason: RejectReason::of(r.u8("reject reason")?),
            text: r.text("reject text", TEXT_BYTES_MAX)?,
        };
        r.end("reject")?;
        Ok(reject)
    }
}
