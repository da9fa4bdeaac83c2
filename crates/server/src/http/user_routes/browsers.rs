//! Device cookies: recognise browsers that logged in before, so that their users are not throttled
//! when others guess passwords.
//!
//! The cookie says which user once gave the right password with it. The daemon keeps nothing of it:
//! the cookie carries a seal that is made with the hash of the user's password, and ends with that
//! password. It opens nothing by itself; the password is still required.

use access::PasswordHash;
use axum::http::HeaderMap;

use crate::data_directory::random_bytes;
use crate::http::gate::cookie_named;
use crate::management::hexadecimal;

/// The name of the cookie.
const COOKIE: &str = "gantry_browser";

/// How long a browser keeps it: 90 days.
const SECONDS: u64 = 90 * 86_400;

/// Random bytes that name a browser.
const NAME_BYTES: usize = 16;

/// Identifier of the browser, if it has a valid cookie of this user.
pub(super) fn known(
    headers: &HeaderMap,
    user: &str,
    hash: Option<&PasswordHash>,
) -> Option<String> {
    let (name, shown) = cookie_named(headers, COOKIE)?.split_once('.')?;
    // The seal is only as long as is compared; that it takes time to compare tells nothing that
    // helps, since the right one is different for every name.
    let is_good = name.len() == 2 * NAME_BYTES && shown == seal(hash?, user, name);
    is_good.then(|| name.to_owned())
}

/// A new cookie, as `Set-Cookie` wants it, if there are random numbers.
pub(super) fn cookie(hash: &PasswordHash, user: &str, secure: &str) -> Option<String> {
    let name = hexadecimal(&random_bytes::<NAME_BYTES>().ok()?);
    let seal = seal(hash, user, &name);
    Some(format!(
        "{COOKIE}={name}.{seal}; HttpOnly; SameSite=Strict; Path=/v1; Max-Age={SECONDS}{secure}"
    ))
}

fn seal(hash: &PasswordHash, user: &str, name: &str) -> String {
    hexadecimal(&hash.seal(format!("browser {user} {name}").as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(cookie: &str) -> HeaderMap {
        let pair = cookie.split(';').next().unwrap();
        HeaderMap::from_iter([(axum::http::header::COOKIE, pair.parse().unwrap())])
    }

    #[test]
    fn a_cookie_is_of_one_user_and_one_password() {
        let [hash, other] =
            [[1; 16], [2; 16]].map(|salt| PasswordHash::new("correct horse", &salt).unwrap());
        let cookie = cookie(&hash, "ann", "").unwrap();
        let headers = headers(&cookie);
        assert!(known(&headers, "ann", Some(&hash)).is_some());
        assert_eq!(known(&headers, "bob", Some(&hash)), None);
        assert_eq!(known(&headers, "ann", Some(&other)), None);
        assert_eq!(known(&headers, "ann", None), None);
    }

    #[test]
    fn nonsense_is_no_browser() {
        let hash = PasswordHash::new("correct horse", &[1; 16]).unwrap();
        for text in ["", ".", "a.b", &format!("{COOKIE}=.{}", seal(&hash, "ann", ""))] {
            assert_eq!(known(&headers(text), "ann", Some(&hash)), None, "{text}");
        }
    }
}
