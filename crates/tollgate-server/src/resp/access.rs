//! Passwords, and what a client may do.

use subtle::ConstantTimeEq;
use tollgate_rules::Secret;

use crate::settings::Settings;

/// What a client may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Role {
    /// It has yet to authenticate.
    Unknown,
    Client,
    /// It may forget all keys, too.
    Admin,
}

/// The user of the admin password.
const ADMIN: &[u8] = b"admin";

/// The user of the other password, as in Redis.
const DEFAULT: &[u8] = b"default";

/// The passwords.
#[derive(Default)]
pub(super) struct Access {
    password: Option<Secret>,
    admin_password: Option<Secret>,
}

/// Why a client is not let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Denied {
    NoPasswords,
    Wrong,
}

impl Denied {
    pub(super) const fn message(self) -> &'static str {
        match self {
            Self::NoPasswords => {
                "ERR AUTH <password> called without any password configured for the default user. \
                 Are you sure your configuration is correct?"
            }
            Self::Wrong => "WRONGPASS invalid username-password pair or user is disabled.",
        }
    }
}

impl Access {
    pub(super) fn new(settings: &Settings) -> Self {
        let Settings { resp_password: password, resp_admin_password: admin_password, .. } = settings.clone();
        Self { password, admin_password }
    }

    /// What a client may do that has not authenticated.
    pub(super) fn at_first(&self) -> Role {
        if self.password.is_some() { Role::Unknown } else { Role::Client }
    }

    /// What a client may do with this password. Without a user, either password will do.
    ///
    /// Takes as long for a wrong password as for the right one, if it has the right length.
    pub(super) fn role(&self, user: Option<&[u8]>, password: &[u8]) -> Result<Role, Denied> {
        let is = |right: &Option<Secret>, name: &[u8]| {
            let is_right =
                right.as_ref().is_some_and(|right| right.reveal().as_bytes().ct_eq(password).into());
            is_right & user.is_none_or(|user| user == name)
        };
        // Both are compared, also if the first is right.
        let (is_admin, is_client) = (is(&self.admin_password, ADMIN), is(&self.password, DEFAULT));
        match () {
            () if is_admin => Ok(Role::Admin),
            () if is_client => Ok(Role::Client),
            () if self.password.is_none() && self.admin_password.is_none() => Err(Denied::NoPasswords),
            () => Err(Denied::Wrong),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_password_gives_its_role() {
        let secret = |text: &str| Some(Secret::from(text.to_owned()));
        let both = Access { password: secret("p"), admin_password: secret("a") };
        assert_eq!(both.at_first(), Role::Unknown);
        for (user, password, role) in [
            (None, "p", Ok(Role::Client)),
            (None, "a", Ok(Role::Admin)),
            (None, "", Err(Denied::Wrong)),
            (None, "pp", Err(Denied::Wrong)),
            (Some("default"), "p", Ok(Role::Client)),
            (Some("default"), "a", Err(Denied::Wrong)),
            (Some("admin"), "a", Ok(Role::Admin)),
            (Some("admin"), "p", Err(Denied::Wrong)),
            (Some("x"), "p", Err(Denied::Wrong)),
        ] {
            assert_eq!(both.role(user.map(str::as_bytes), password.as_bytes()), role, "{user:?} {password}");
        }
        let none = Access::default();
        assert_eq!((none.at_first(), none.role(None, b"")), (Role::Client, Err(Denied::NoPasswords)));
        let admin = Access { password: None, admin_password: secret("a") };
        assert_eq!((admin.at_first(), admin.role(None, b"b")), (Role::Client, Err(Denied::Wrong)));
    }
}
