//! The file in which a driver keeps the secret of its session.

use super::Driver;
use crate::ClientNote;
use quorate_types::FromClient;

impl Driver {
    /// Whether the secret of a session that is asked for stands in its file, if it has one: else nobody could resume the session.
    pub(super) fn is_kept(&mut self, message: &FromClient) -> bool {
        let (FromClient::Resume { secret, .. }, Some(file)) = (message, &self.options.session_file)
        else {
            return true;
        };
        let Err(error) = file.keep(*secret) else {
            return true;
        };
        let (path, error) = (file.path().display().to_string(), error.to_string());
        self.last_error = Some(format!("{path}: {error}"));
        self.notes.push(ClientNote::NotKept { path, error });
        false
    }

    /// The client has ended: a process after this one may resume its session.
    pub(crate) fn release_session(&self) {
        if let Some(file) = &self.options.session_file {
            file.release();
        }
    }
}
