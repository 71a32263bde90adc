//! Which nodes the own certificate is good for, found out before anybody else is asked to accept it.
//!
//! It is judged as the other nodes judge it, by both directions of a link. Called by who is about to become a member, and by who
//! makes certificates.

use crate::tls::{Tls, TlsError, server_name};
use quorate_types::{NodeId, NodeSet};
use rustls::CertificateError;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::client::verify_server_name;
use rustls::pki_types::UnixTime;
use rustls::server::{ParsedCertificate, WebPkiClientVerifier};
use std::sync::Arc;

impl Tls {
    /// The nodes that this certificate names, if others accept it.
    ///
    /// # Errors
    /// Why they do not, or that it names none.
    pub fn certified_nodes(&self) -> Result<NodeSet, TlsError> {
        self.certified_at(UnixTime::now())
    }

    fn certified_at(&self, now: UnixTime) -> Result<NodeSet, TlsError> {
        let (own, above) = self.chain.split_first().expect("read with one at least");
        let refused = |error: rustls::Error| TlsError::of_certificate(reason(&error));
        let parsed = ParsedCertificate::try_from(own).map_err(refused)?;
        let nodes = (0..NodeSet::CAPACITY).map(NodeId);
        let named = nodes.filter(|node| verify_server_name(&parsed, &server_name(*node)).is_ok());
        let named: NodeSet = named.collect();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let roots = &self.roots;
        let clients = WebPkiClientVerifier::builder_with_provider(roots.clone(), provider.clone());
        let clients = clients.build().expect("the same was built of them before");
        clients
            .verify_client_cert(own, above, now)
            .map_err(refused)?;
        let Some(first) = named.iter().next() else {
            return Err(TlsError::of_certificate(
                "it names no node: a node needs one for node-N.quorate".to_owned(),
            ));
        };
        let servers = WebPkiServerVerifier::builder_with_provider(roots.clone(), provider);
        let servers = servers.build().expect("the same was built of them before");
        servers
            .verify_server_cert(own, above, &server_name(first), &[], now)
            .map_err(refused)?;
        Ok(named)
    }
}

fn reason(error: &rustls::Error) -> String {
    let rustls::Error::InvalidCertificate(wrong) = error else {
        return error.to_string();
    };
    match wrong {
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            "the authority given has not signed it".to_owned()
        }
        CertificateError::Expired
        | CertificateError::ExpiredContext { .. }
        | CertificateError::NotValidYet
        | CertificateError::NotValidYetContext { .. } => {
            "it, or the authority, has expired or is not valid yet by this machine's clock"
                .to_owned()
        }
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            "a node needs one that is good for servers and for clients".to_owned()
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{
        BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
        KeyPair, date_time_ymd,
    };
    use std::time::Duration;

    const SERVER: ExtendedKeyUsagePurpose = ExtendedKeyUsagePurpose::ServerAuth;
    const CLIENT: ExtendedKeyUsagePurpose = ExtendedKeyUsagePurpose::ClientAuth;

    struct Authority(Issuer<'static, KeyPair>, String);

    fn authority(name: &str) -> Authority {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        let pem = params.self_signed(&key).unwrap().pem();
        Authority(Issuer::new(params, key), pem)
    }

    impl Authority {
        fn certify(&self, names: &[&str], usages: &[ExtendedKeyUsagePurpose]) -> [String; 2] {
            let key = KeyPair::generate().unwrap();
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            let mut params = CertificateParams::new(names).unwrap();
            params.not_before = date_time_ymd(2001, 1, 1);
            params.not_after = date_time_ymd(2030, 1, 1);
            params.extended_key_usages = usages.to_vec();
            let pem = params.signed_by(&key, &self.0).unwrap().pem();
            [pem, key.serialize_pem()]
        }

        fn judges(&self, [chain, key]: &[String; 2], year: u64) -> Result<Vec<u16>, String> {
            let [ca, chain, key] = [&self.1, chain, key].map(|pem| pem.as_bytes());
            let now = UnixTime::since_unix_epoch(Duration::from_secs((year - 1970) * 31_557_600));
            let tls = Tls::from_pem(ca, chain, key).map_err(|error| error.to_string())?;
            let nodes = tls.certified_at(now);
            let nodes = nodes.map_err(|error| error.to_string())?;
            Ok(nodes.iter().map(|node| node.0).collect())
        }
    }

    #[test]
    fn a_certificate_is_good_for_the_nodes_that_it_names_where_others_accept_it() {
        let (own, foreign) = (authority("own"), authority("foreign"));
        let both = [SERVER, CLIENT];
        let names = ["localhost", "node-4.quorate", "node-63.quorate"];
        let good = own.certify(&names, &both);
        assert_eq!(own.judges(&good, 2026), Ok(vec![4, 63]));
        let client = own.certify(&["client.quorate"], &[CLIENT]);
        let one_way = own.certify(&names, &[CLIENT]);
        let other_way = own.certify(&names, &[SERVER]);
        let mixed = [good[0].clone(), client[1].clone()];
        for (authority, certificate, year, why) in [
            (&foreign, &good, 2026, "has not signed it"),
            (&own, &good, 2040, "has expired"),
            (&own, &good, 1999, "not valid yet"),
            (&own, &client, 2026, "names no node"),
            (&own, &one_way, 2026, "good for servers and for clients"),
            (&own, &other_way, 2026, "good for servers and for clients"),
            (&own, &mixed, 2026, "tls.cert"),
        ] {
            let refused = authority.judges(certificate, year).unwrap_err();
            assert!(refused.contains(why), "{refused}");
        }
    }
}
