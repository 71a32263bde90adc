//! What messages tell a node of slots that are decided.

use crate::checkers::catching_up::CatchingUp;
use quorate_acceptor::Testimony;
use quorate_any::AnyMessage;
use quorate_replica::PeerMessage;
use quorate_types::{NodeId, ViewNumber};

impl CatchingUp {
    /// `node`, which is in a view with this number, handles a message of `from`. Messages of another one teach it nothing.
    pub(super) fn hears(
        &mut self,
        node: NodeId,
        from: NodeId,
        message: &PeerMessage<AnyMessage>,
        number: ViewNumber,
    ) {
        let PeerMessage::Ordering { view, message } = message else {
            return;
        };
        if view.number != number {
            return;
        }
        match message.testimony() {
            Testimony::TellsDecided { .. } => self.answered(node, from),
            Testimony::Opens { ballot } => self.knows(node, ballot),
            Testimony::AsksLease {
                ballot, decided, ..
            }
            | Testimony::Leads { ballot, decided }
            | Testimony::Proposes {
                ballot, decided, ..
            }
            | Testimony::ProposesNamed {
                ballot, decided, ..
            }
            | Testimony::PassesId { ballot, decided }
            | Testimony::Passes {
                ballot, decided, ..
            } => self.heard(node, ballot, decided),
            Testimony::Nothing
            | Testimony::Votes { .. }
            | Testimony::Gathers { .. }
            | Testimony::ProposesValue { .. }
            | Testimony::Spreads { .. }
            | Testimony::Promises(_)
            | Testimony::GrantsLease { .. }
            | Testimony::AsksConfirm { .. }
            | Testimony::Confirms { .. }
            | Testimony::Attests { .. }
            | Testimony::AsksDecided { .. }
            | Testimony::AsksPreVote { .. }
            | Testimony::AnswersPreVote { .. }
            | Testimony::Surveys { .. }
            | Testimony::Surveyed { .. } => {}
        }
    }
}
