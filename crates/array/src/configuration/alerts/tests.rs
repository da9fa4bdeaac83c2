use super::*;

fn webhook(url: &str) -> Alerts {
    let webhook = Webhook { url: url.to_owned(), level: AlertLevel::Warning, signed: false };
    Alerts { webhooks: BTreeMap::from([("hook".to_owned(), webhook)]), mail: None }
}

fn mail() -> Mail {
    Mail {
        relay: "mail.example.org:587".to_owned(),
        tls: MailTls::Starttls,
        user: Some("array".to_owned()),
        from: "array@example.org".to_owned(),
        to: vec!["a@example.org".to_owned()],
        level: AlertLevel::Error,
    }
}

fn checked(mail: Mail) -> Result<(), ArrayError> {
    Alerts { mail: Some(mail), ..Alerts::default() }.check()
}

#[test]
fn a_webhook_has_a_plain_http_url() {
    for url in ["http://h/", "https://hooks.example.org:8443/x/y?z=1", "http://[::1]:80/"] {
        assert_eq!(webhook(url).check(), Ok(()), "{url}");
    }
    let long = format!("http://h/{}", "x".repeat(2048));
    for url in [
        "",
        "h",
        "ftp://h/",
        "file:///etc/passwd",
        "http://",
        "http:///x",
        "http://user:pw@h/",
        "https://u@h/",
        "http://h/a b",
        "http://h/\r\nX: y",
        "http://ü/",
        &*long,
    ] {
        assert!(webhook(url).check().is_err(), "{url}");
    }
}

#[test]
fn too_many_webhooks_and_unusable_names_are_refused() {
    let one = webhook("http://h/").webhooks["hook"].clone();
    let webhooks = (0..17).map(|number| (format!("h{number}"), one.clone())).collect();
    assert!(Alerts { webhooks, mail: None }.check().is_err());
    let webhooks = BTreeMap::from([("a/b".to_owned(), one)]);
    assert!(Alerts { webhooks, mail: None }.check().is_err());
}

#[test]
fn mail_that_could_not_be_sent_or_would_tell_a_password_is_refused() {
    assert_eq!(checked(mail()), Ok(()));
    assert_eq!(checked(Mail { tls: MailTls::None, user: None, ..mail() }), Ok(()));
    let relay = |relay: &str| Mail { relay: relay.to_owned(), ..mail() };
    let to = |to: &str| Mail { to: vec![to.to_owned()], ..mail() };
    for wrong in [
        Mail { tls: MailTls::None, ..mail() },
        Mail { user: Some(String::new()), ..mail() },
        Mail { to: Vec::new(), ..mail() },
        Mail { to: vec!["a@b".to_owned(); 33], ..mail() },
        Mail { from: "nobody".to_owned(), ..mail() },
        to("a@b\r\nBcc: c@d"),
        to("@b"),
        to("a@"),
        relay("mail.example.org"),
        relay(":25"),
        relay("h:0"),
        relay("h:65536"),
        relay("h/x:25"),
    ] {
        assert!(checked(wrong.clone()).is_err(), "{wrong:?}");
    }
}
