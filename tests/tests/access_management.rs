//! Authentication and authorisation of administrators over the network: users, tokens, TLS.

use std::fs;
use std::net::Ipv4Addr;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use harness::array::free_address;
use harness::http::{Answer, Request};
use harness::program::run;
use harness::{Array, Value, binaries, generations, text};
use serde_json::json;

const PASSWORD: &str = "correct horse battery";
const OTHER_PASSWORD: &str = "staple correct horse";

/// A browser, as far as the array can tell.
struct Browser<'a> {
    array: &'a Array,
    cookie: String,
    csrf: String,
}

impl<'a> Browser<'a> {
    fn log_in(array: &'a Array, user: &str, password: &str) -> Result<Self> {
        let answer = login(array, user, password)?;
        let me = answer.success()?;
        let set = answer.header("set-cookie").context("a cookie")?;
        ensure!(set.contains("; HttpOnly; SameSite=Strict; Path=/"), "{set}");
        let cookie = set.split(';').next().unwrap_or_default().to_owned();
        Ok(Self { array, cookie, csrf: text(&me, "/csrf")?.to_owned() })
    }

    fn send(&self, request: &Request) -> Result<Answer> {
        request
            .clone()
            .with("Cookie", &self.cookie)
            .with("X-Gantry-Csrf", &self.csrf)
            .send(self.array.http())
    }

    fn get(&self, path: &str) -> Result<Answer> {
        self.send(&Request::new("GET", path))
    }
}

fn login_request(user: &str, password: &str) -> Request {
    Request::new("POST", "/v1/login").json(&json!({ "user": user, "password": password }))
}

fn login(array: &Array, user: &str, password: &str) -> Result<Answer> {
    login_request(user, password).send(array.http())
}

/// Sends a request with a token.
fn with_token(array: &Array, token: &str, request: &Request) -> Result<Answer> {
    request.clone().with("Authorization", &format!("Bearer {token}")).send(array.http())
}

fn first_password(array: &Array) -> Result<String> {
    let log = array.log();
    let (_, rest) = log.split_once("with the password ").context("no first password")?;
    Ok(rest.split(' ').next().unwrap_or_default().to_owned())
}

/// Makes a user over the socket, with a password in a file.
fn create_user(array: &Array, name: &str, role: &str) -> Result<()> {
    let file = secret_file(array, PASSWORD)?;
    let file = file.to_str().context("a printable path")?;
    let words = ["user", "create", name, "--role", role, "--password-file", file, "--own"];
    array.gantry(&words).map(drop)
}

fn secret_file(array: &Array, secret: &str) -> Result<PathBuf> {
    let path = array.beside("secret");
    fs::write(&path, format!("{secret}\n"))?;
    Ok(path)
}

fn create_token(array: &Array, role: &str) -> Result<String> {
    let printed = array.gantry(&["token", "create", "test", "--role", role, "--days", "1"])?;
    Ok(printed.trim().to_owned())
}

#[test]
fn the_first_password_must_be_changed_before_anything_else() -> Result<()> {
    let mut array = Array::start()?;
    let first = first_password(&array)?;
    let browser = Browser::log_in(&array, "admin", &first)?;
    assert_eq!(browser.get("/v1/me")?.success()?["must_change_password"], true);
    ensure!(browser.get("/v1/pools")?.problem(403)?.contains("change the password"));
    let change = |old: &str, new: &str| {
        let body = json!({ "old": old, "new": new });
        browser.send(&Request::new("PUT", "/v1/me/password").json(&body))
    };
    change("wrong", PASSWORD)?.problem(403)?;
    change(&first, "short")?.problem(400)?;
    change(&first, &first)?.problem(400)?;
    change(&first, PASSWORD)?.success()?;
    browser.get("/v1/pools")?.success()?;
    login(&array, "admin", &first)?.problem(401)?;
    ensure!(array.stop()?.success());
    array.restart()?;
    Browser::log_in(&array, "admin", PASSWORD)?.get("/v1/pools")?.success()?;
    assert_eq!(array.log().matches("with the password").count(), 1, "printed once");
    Ok(())
}

#[test]
fn without_login_nothing_but_probes_is_answered() -> Result<()> {
    let array = Array::start()?;
    let send = |request: Request| request.send(array.http());
    for path in ["/v1/pools", "/v1/me", "/v1/users", "/v1/audit", "/metrics", "/v1/tokens"] {
        ensure!(send(Request::new("GET", path))?.problem(401)?.contains("/v1/login"), "{path}");
    }
    send(Request::new("DELETE", "/v1/pools/p"))?.problem(401)?;
    send(Request::new("POST", "/v1/pools").text("{"))?.problem(401)?;
    for value in ["Bearer", "Bearer x", "Basic YWRtaW46YQ==", &format!("Bearer {:064}", 0)] {
        send(Request::new("GET", "/v1/pools").with("Authorization", value))?.problem(401)?;
        let cookie = format!("gantry_session={value}");
        send(Request::new("GET", "/v1/pools").with("Cookie", &cookie))?.problem(401)?;
    }
    for path in ["/healthz", "/readyz"] {
        let answer = send(Request::new("GET", path))?;
        assert_eq!((answer.status, answer.body.as_str()), (200, "ok"), "{path}");
    }
    Ok(())
}

#[test]
fn a_change_needs_our_own_page_and_the_secret_that_it_was_given() -> Result<()> {
    let array = Array::start()?;
    create_user(&array, "olga", "operator")?;
    let browser = Browser::log_in(&array, "olga", PASSWORD)?;
    let create = Request::new("POST", "/v1/hosts")
        .json(&json!({ "name": "esx1", "initiators": ["iqn.2026-01.org.example:a"] }));
    let own = format!("http://{}", array.http());
    let bare = create.clone().with("Cookie", &browser.cookie);
    for csrf in [None, Some(""), Some("0123"), Some(browser.cookie.as_str())] {
        let request = csrf.map_or(bare.clone(), |csrf| bare.clone().with("X-Gantry-Csrf", csrf));
        ensure!(request.send(array.http())?.problem(403)?.contains("X-Gantry-Csrf"), "{csrf:?}");
    }
    for origin in ["http://evil.example", "null", "https://localhost"] {
        browser.send(&create.clone().with("Origin", origin))?.problem(403)?;
        browser.send(&Request::new("GET", "/v1/pools").with("Origin", origin))?.problem(403)?;
    }
    browser.send(&create.clone().with("Host", "evil.example"))?.problem(403)?;
    browser.send(&create.with("Origin", &own))?.success()?;
    browser.send(&Request::new("POST", "/v1/logout"))?.success()?;
    browser.get("/v1/pools")?.problem(401)?;
    Ok(())
}

#[test]
fn each_role_may_do_its_part_and_no_more() -> Result<()> {
    let array = Array::start()?;
    array.gantry(&["pool", "create", "p", "--device", "memory:", "--size", "1G"])?;
    let [viewer, operator, admin] =
        ["viewer", "operator", "admin"].map(|role| create_token(&array, role));
    let (viewer, operator, admin) = (viewer?, operator?, admin?);
    let volume = json!({ "pool": "p", "name": "v", "size_bytes": 1 << 20 });
    let user = json!({ "name": "u", "role": "viewer", "password": PASSWORD });
    let cases = [
        (Request::new("GET", "/v1/pools"), [200, 200, 200]),
        (Request::new("GET", "/metrics"), [200, 200, 200]),
        (Request::new("POST", "/v1/volumes").json(&volume), [403, 200, 409]),
        (Request::new("PUT", "/v1/volumes/p/v/maps/any"), [403, 200, 200]),
        (Request::new("DELETE", "/v1/volumes/p/v/maps/any"), [403, 200, 404]),
        (Request::new("DELETE", "/v1/hosts/h"), [403, 404, 404]),
        (Request::new("DELETE", "/v1/pools/q"), [403, 403, 404]),
        (Request::new("DELETE", "/v1/portals/127.0.0.1:1"), [403, 403, 404]),
        (Request::new("GET", "/v1/users"), [403, 403, 200]),
        (Request::new("GET", "/v1/audit"), [403, 403, 200]),
        (Request::new("POST", "/v1/users").json(&user), [403, 403, 200]),
        (Request::new("DELETE", "/v1/users/u"), [403, 403, 200]),
    ];
    for (request, statuses) in cases {
        for (token, status) in [&viewer, &operator, &admin].into_iter().zip(statuses) {
            let answer = with_token(&array, token, &request)?;
            assert_eq!(answer.status, status, "{request:?} {}", answer.body);
        }
    }
    Ok(())
}

#[test]
fn a_token_ends_with_its_deletion_its_user_or_a_new_password_of_the_user() -> Result<()> {
    let array = Array::start()?;
    create_user(&array, "olga", "operator")?;
    let pools = Request::new("GET", "/v1/pools");
    let browser = Browser::log_in(&array, "olga", PASSWORD)?;
    let create = |role: &str, days: Value| {
        let body = json!({ "name": "backup", "role": role, "expires_in_days": days });
        browser.send(&Request::new("POST", "/v1/tokens").json(&body))
    };
    create("admin", Value::Null)?.problem(403)?;
    create("viewer", json!(0))?.problem(400)?;
    create("viewer", json!(3651))?.problem(400)?;
    let token = create("viewer", json!(30))?.success()?;
    let (id, secret) = (text(&token, "/id")?, text(&token, "/secret")?);
    with_token(&array, secret, &pools)?.success()?;
    // A token of little power makes none of more.
    let more = json!({ "name": "more", "role": "operator" });
    with_token(&array, secret, &Request::new("POST", "/v1/tokens").json(&more))?.problem(403)?;
    let list = browser.get("/v1/tokens")?;
    ensure!(list.body.contains(id) && !list.body.contains(secret), "{}", list.body);
    browser.send(&Request::new("DELETE", &format!("/v1/tokens/{id}")))?.success()?;
    with_token(&array, secret, &pools)?.problem(401)?;
    let second = create("operator", Value::Null)?.success()?;
    let second = text(&second, "/secret")?;
    with_token(&array, second, &pools)?.success()?;
    let file = secret_file(&array, OTHER_PASSWORD)?;
    let file = file.to_str().context("a printable path")?;
    array.gantry(&["user", "change", "olga", "--password-file", file])?;
    with_token(&array, second, &pools)?.problem(401)?;
    browser.get("/v1/pools")?.problem(401)?;
    let browser = Browser::log_in(&array, "olga", OTHER_PASSWORD)?;
    browser.get("/v1/pools")?.problem(403)?;
    array.gantry(&["user", "delete", "olga"])?;
    browser.get("/v1/pools")?.problem(401)?;
    let refusal = array.try_gantry(&["user", "delete", "admin"])?.failure()?;
    ensure!(refusal.contains("last administrator"), "{refusal}");
    Ok(())
}

/// A viewer's token of one day made one that never ended and stayed when its parent was deleted, and
/// a viewer could use up all tokens that there can be.
#[test]
fn a_token_makes_nothing_longer_or_wider_than_itself_and_ends_what_it_made() -> Result<()> {
    let array = Array::start()?;
    create_user(&array, "olga", "operator")?;
    let browser = Browser::log_in(&array, "olga", PASSWORD)?;
    let wanted = |role: &str, days: Value| {
        let body = json!({ "name": "t", "role": role, "expires_in_days": days });
        Request::new("POST", "/v1/tokens").json(&body)
    };
    let make = |request: &Request| -> Result<(Value, String)> {
        let token = browser.send(request)?.success()?;
        Ok((token["id"].clone(), text(&token, "/secret")?.to_owned()))
    };
    let (strong_id, strong) = make(&wanted("operator", Value::Null))?;
    let parent = browser.send(&wanted("viewer", json!(1)))?.success()?;
    let (parent_id, parent_secret) = (text(&parent, "/id")?, text(&parent, "/secret")?);
    with_token(&array, parent_secret, &wanted("operator", Value::Null))?.problem(403)?;
    for days in [2, 3650] {
        with_token(&array, parent_secret, &wanted("viewer", json!(days)))?.problem(403)?;
    }
    let child = with_token(&array, parent_secret, &wanted("viewer", Value::Null))?.success()?;
    assert_eq!((&child["expires"], &child["parent"]), (&parent["expires"], &parent["id"]));
    let (child_id, child_secret) = (text(&child, "/id")?, text(&child, "/secret")?);
    // What allows less does not delete what allows more, nor what made it.
    let delete = |id: &str| Request::new("DELETE", &format!("/v1/tokens/{id}"));
    let strong_id = strong_id.as_str().context("an identifier")?;
    with_token(&array, parent_secret, &delete(strong_id))?.problem(403)?;
    with_token(&array, child_secret, &delete(parent_id))?.problem(403)?;
    let pools = Request::new("GET", "/v1/pools");
    with_token(&array, child_secret, &pools)?.success()?;
    with_token(&array, parent_secret, &delete(parent_id))?.success()?;
    with_token(&array, child_secret, &pools)?.problem(401)?;
    browser.send(&delete(child_id))?.problem(404)?;
    with_token(&array, &strong, &pools)?.success()?;
    // One user has 32 at most, and others still get theirs.
    for _ in 1..32 {
        with_token(&array, &strong, &wanted("viewer", Value::Null))?.success()?;
    }
    ensure!(browser.send(&wanted("viewer", Value::Null))?.problem(409)?.contains("'olga' has 32"));
    create_token(&array, "admin")?;
    Ok(())
}

#[test]
fn whoever_guesses_passwords_must_wait() -> Result<()> {
    let array = Array::start()?;
    create_user(&array, "olga", "operator")?;
    let mut answer = login(&array, "olga", "wrong")?;
    for _ in 0..20 {
        if answer.status == 429 {
            break;
        }
        ensure!(answer.problem(401)?.contains("user or password"));
        answer = login(&array, "olga", "wrong")?;
    }
    answer.problem(429)?;
    let wait: u64 = answer.header("retry-after").context("Retry-After")?.parse()?;
    ensure!((1..=300).contains(&wait), "{wait}");
    login(&array, "olga", PASSWORD)?.problem(429)?;
    // Names that there are not are treated the same; in the end the address waits for any name.
    for round in 0..20 {
        login(&array, &format!("nobody-{round}"), PASSWORD)?;
    }
    login(&array, "somebody-else", PASSWORD)?.problem(429)?;
    Ok(())
}

/// Six wrong passwords by anybody kept the right user out for minutes.
#[test]
fn wrong_passwords_of_others_do_not_keep_the_right_user_out() -> Result<()> {
    let array = Array::start()?;
    create_user(&array, "olga", "operator")?;
    let from = |last: u8, request: &Request| {
        request.send_from(Ipv4Addr::new(127, 0, 0, last), array.http())
    };
    let (right, wrong) = (login_request("olga", PASSWORD), login_request("olga", "wrong"));
    let first = from(1, &right)?;
    let cookies = first.headers("set-cookie");
    let browser = cookies.iter().find_map(|set| set.strip_prefix("gantry_browser="));
    let browser = browser.context("a cookie for the browser")?.split(';').next();
    let guess = |last: u8| -> Result<()> { (0..12).try_for_each(|_| from(last, &wrong).map(drop)) };
    guess(6)?;
    from(6, &right)?.problem(429)?;
    from(1, &right)?.success()?;
    from(7, &right)?.success()?;
    // Even where somebody guesses from her own address her browser is let in, and so is the socket.
    guess(1)?;
    from(1, &right)?.problem(429)?;
    let known = format!("gantry_browser={}", browser.unwrap_or_default());
    from(1, &right.clone().with("Cookie", &known))?.success()?;
    from(1, &login_request("admin", PASSWORD).with("Cookie", &known))?.problem(401)?;
    right.send_to_socket(&array.data().join("gantry.sock"))?.success()?;
    Ok(())
}

/// A caller who hung up at once was not counted, and any number of passwords was hashed at a time.
#[test]
fn wrong_passwords_count_even_if_nobody_waits_for_the_answer() -> Result<()> {
    let array = Array::start()?;
    create_user(&array, "olga", "operator")?;
    for _ in 0..12 {
        login_request("olga", "wrong").send_and_hang_up(array.http())?;
    }
    let deadline = Instant::now() + Duration::from_secs(60);
    while login(&array, "olga", PASSWORD)?.status != 429 {
        ensure!(Instant::now() < deadline, "they were not counted");
        login_request("olga", "wrong").send_and_hang_up(array.http())?;
    }
    Ok(())
}

/// As a daemon of before parents of tokens were kept wrote it.
#[test]
fn users_and_tokens_of_before_are_read() -> Result<()> {
    let mut array = Array::start()?;
    let token = create_token(&array, "viewer")?;
    ensure!(array.stop()?.success());
    let before = generations::read(&array, "users.json")?;
    let tokens = before["tokens"].as_object().context("tokens")?;
    ensure!(tokens.values().all(|token| token.get("parent").is_none()), "{before}");
    generations::replace(&array, "users.json", &before)?;
    array.restart()?;
    with_token(&array, &token, &Request::new("GET", "/v1/pools"))?.success()?;
    Ok(())
}

#[test]
fn every_change_is_in_the_audit_log_and_no_secret_anywhere() -> Result<()> {
    let mut array = Array::start()?;
    create_user(&array, "olga", "operator")?;
    let browser = Browser::log_in(&array, "olga", PASSWORD)?;
    let body = json!({
        "name": "esx1", "initiators": ["iqn.2026-01.org.example:a"],
        "chap": { "user": "a", "secret": "chap secret 1234" },
    });
    browser.send(&Request::new("POST", "/v1/hosts").json(&body))?.success()?;
    browser.send(&Request::new("DELETE", "/v1/pools/p"))?.problem(403)?;
    login(&array, PASSWORD, "typed in the wrong field")?.problem(401)?;
    let session = browser.cookie.split_once('=').context("a value")?.1.to_owned();
    let csrf = browser.csrf;
    let token = create_token(&array, "admin")?;
    with_token(&array, &token, &Request::new("DELETE", "/v1/hosts/nobody"))?.problem(404)?;
    ensure!(array.stop()?.success());
    array.restart()?;
    let entries = array.gantry_json(&["audit"])?;
    let entries = entries.as_array().context("a list")?;
    let row = |entry: &Value| {
        let field = |name: &str| entry[name].as_str().unwrap_or("?").to_owned();
        let words = [field("user"), field("via"), field("source"), field("method"), field("path")];
        format!("{} {}", words.join(" "), entry["status"])
    };
    let rows: Vec<String> = entries.iter().map(row).collect();
    let expected = [
        "admin token 127.0.0.1 DELETE /v1/hosts/nobody 404",
        "local socket  POST /v1/tokens 200",
        " password 127.0.0.1 POST /v1/login 401",
        "olga session 127.0.0.1 DELETE /v1/pools/p 403",
        "olga session 127.0.0.1 POST /v1/hosts 200",
        "olga password 127.0.0.1 POST /v1/login 200",
        "local socket  POST /v1/users 200",
    ];
    assert_eq!(rows, expected);
    ensure!(array.gantry(&["audit", "--last", "1"])?.contains("DELETE /v1/hosts/nobody"));
    let audit = fs::read_to_string(array.data().join("audit.jsonl"))?;
    let users = array.data().join("users.json");
    assert_eq!(fs::metadata(&users)?.permissions().mode() & 0o777, 0o600);
    let kept = [array.log(), audit, fs::read_to_string(users)?].concat();
    for secret in [PASSWORD, "chap secret", &token, &session, &csrf] {
        ensure!(!kept.contains(secret), "a secret was written: {secret}");
    }
    Ok(())
}

/// Runs the command line as on another machine: by URL, with a token and a certificate.
fn remote(array: &Array, url: &str, ca: Option<&str>, words: &[&str]) -> Result<String> {
    let file = array.beside("token");
    let file = file.to_str().context("a printable path")?;
    let mut line = vec!["--url", url, "--token-file", file];
    line.extend(ca.map_or(vec![], |ca| vec!["--ca", ca]));
    let finished =
        run(&binaries::binary("gantry")?, &[&line, words].concat(), Duration::from_secs(60))?;
    if finished.status.success() {
        finished.success()
    } else {
        Ok(format!("refused: {}", finished.failure()?))
    }
}

#[test]
fn tls_has_a_certificate_of_its_own_or_the_administrators() -> Result<()> {
    let https = free_address()?;
    let words = ["--https".to_owned(), https.to_string()];
    let words = words.each_ref().map(String::as_str);
    let mut array = Array::prepare()?.with_words(&[], &words);
    array.restart()?;
    fs::write(array.beside("token"), create_token(&array, "viewer")?)?;
    let own = array.data().join("tls.crt");
    let (own, url) = (own.to_str().context("a path")?, format!("https://{https}"));
    assert_eq!(remote(&array, &url, Some(own), &["pool", "list", "--json"])?.trim(), "[]");
    let by_name = format!("https://localhost:{}", https.port());
    assert_eq!(remote(&array, &by_name, Some(own), &["pool", "list", "--json"])?.trim(), "[]");
    let refusal = remote(&array, &url, None, &["pool", "list"])?;
    ensure!(refusal.contains("--ca FILE"), "{refusal}");
    let key = array.data().join("tls.key");
    assert_eq!(fs::metadata(&key)?.permissions().mode() & 0o777, 0o600);
    // The next start keeps it; a pair of files from elsewhere goes before it.
    let (before, copy) = (fs::read(own)?, array.beside("copy.crt"));
    let (copy_key, copy) = (array.beside("copy.key"), copy.to_str().context("a path")?.to_owned());
    fs::copy(own, &copy)?;
    fs::copy(&key, &copy_key)?;
    ensure!(array.stop()?.success());
    fs::remove_file(&key)?;
    array.restart()?;
    ensure!(fs::read(own)? != before, "a certificate without its key is replaced");
    ensure!(remote(&array, &url, Some(&copy), &["pool", "list"])?.contains("--ca FILE"));
    ensure!(array.stop()?.success());
    let pair = ["--tls-certificate", &copy, "--tls-key", copy_key.to_str().context("a path")?];
    let mut array = array.with_words(&[], &[&words[..], &pair].concat());
    array.restart()?;
    assert_eq!(remote(&array, &url, Some(&copy), &["pool", "list", "--json"])?.trim(), "[]");
    ensure!(array.stop()?.success());
    let wrong = ["--tls-certificate", &copy, "--tls-key", key.to_str().context("a path")?];
    let mut array = array.with_words(&[], &[&words[..], &wrong].concat());
    let refusal = array.restart().err().context("it started")?.to_string();
    ensure!(refusal.contains("do not belong together"), "{refusal}");
    Ok(())
}
