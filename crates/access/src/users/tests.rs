use super::*;

const SECRET: [u8; SECRET_BYTES] = [9; SECRET_BYTES];

fn hash() -> PasswordHash {
    serde_json::from_str("\"$argon2id$\"").unwrap()
}

fn users() -> Users {
    let mut users = Users::default();
    users.add("admin", Role::Admin, hash(), true, 1).unwrap();
    users.add("olga", Role::Operator, hash(), false, 2).unwrap();
    users
}

fn spec(user: &str, role: Role) -> NewTokenSpec<'_> {
    NewTokenSpec { name: "backup", user, role, days: Some(1), parent: None }
}

#[test]
fn the_last_administrator_stays() {
    let mut users = users();
    assert_eq!(users.remove("admin"), Err(AccessError::LastAdmin("admin".into())));
    assert_eq!(users.set_role("admin", Role::Viewer), Err(AccessError::LastAdmin("admin".into())));
    users.set_role("olga", Role::Admin).unwrap();
    users.remove("admin").unwrap();
    assert_eq!(users.remove("olga"), Err(AccessError::LastAdmin("olga".into())));
}

#[test]
fn names_are_checked_and_unique() {
    let mut users = users();
    for name in ["", "a b", "a/b", "ä", &"x".repeat(64)] {
        let refused = users.add(name, Role::Viewer, hash(), false, 1);
        assert_eq!(refused, Err(AccessError::Name(name.into())));
    }
    let refused = users.add("olga", Role::Viewer, hash(), false, 1);
    assert_eq!(refused, Err(AccessError::Exists("olga".into())));
    assert_eq!(users.set_role("nobody", Role::Admin), Err(AccessError::NoUser("nobody".into())));
}

#[test]
fn a_token_is_good_for_its_role_and_time_and_its_secret_is_not_kept() {
    let mut users = users();
    let token = users.add_token(&spec("olga", Role::Viewer), &SECRET, 1000).unwrap();
    assert_eq!(token.expires, Some(1000 + 86_400));
    let identity = users.identify_token(&SECRET, 1000).unwrap();
    assert_eq!((identity.user.as_str(), identity.role), ("olga", Role::Viewer));
    assert_eq!(users.identify_token(&SECRET, 1000 + 86_400), None);
    assert_eq!(users.identify_token(&[8; 32], 1000), None);
    assert_eq!(users.identify_token(b"", 1000), None);
    let saved = serde_json::to_string(&users).unwrap();
    assert!(!saved.contains(&hexadecimal(&SECRET)));
    assert_eq!(serde_json::from_str::<Users>(&saved).unwrap(), users);
    users.remove_token(&token.id).unwrap();
    assert_eq!(users.identify_token(&SECRET, 1000), None);
    assert_eq!(users.remove_token(&token.id), Err(AccessError::NoToken(token.id)));
}

#[test]
fn a_token_never_allows_more_than_its_user_may() {
    let mut users = users();
    let refused = users.add_token(&spec("olga", Role::Admin), &SECRET, 0);
    assert_eq!(refused, Err(AccessError::TokenRole));
    users.add_token(&spec("olga", Role::Operator), &SECRET, 0).unwrap();
    users.set_role("olga", Role::Viewer).unwrap();
    assert_eq!(users.identify_token(&SECRET, 0).unwrap().role, Role::Viewer);
    users.remove("olga").unwrap();
    assert_eq!(users.identify_token(&SECRET, 0), None);
}

#[test]
fn a_token_lasts_a_day_to_ten_years_or_for_ever() {
    let mut users = users();
    for days in [0, 3651, u32::MAX] {
        let spec = NewTokenSpec { days: Some(days), ..spec("olga", Role::Viewer) };
        assert_eq!(users.add_token(&spec, &SECRET, 0), Err(AccessError::TokenDays));
    }
    let spec = NewTokenSpec { days: None, ..spec("olga", Role::Viewer) };
    users.add_token(&spec, &SECRET, 0).unwrap();
    assert!(users.identify_token(&SECRET, u64::MAX).is_some());
}

#[test]
fn a_password_set_by_somebody_else_ends_tokens_and_must_be_changed() {
    let mut users = users();
    users.add_token(&spec("olga", Role::Viewer), &SECRET, 0).unwrap();
    users.reset_password("olga", hash()).unwrap();
    assert_eq!(users.identify_token(&SECRET, 0), None);
    assert!(users.user("olga").unwrap().must_change_password);
    users.choose_password("olga", hash()).unwrap();
    assert!(!users.user("olga").unwrap().must_change_password);
}

#[test]
fn the_first_password_is_nobodys_own() {
    let mut users = users();
    assert!(!users.has_own_password());
    users.choose_password("olga", hash()).unwrap();
    assert!(!users.has_own_password());
    users.choose_password("admin", hash()).unwrap();
    assert!(users.has_own_password());
    users.set_must_change_password("admin", true).unwrap();
    assert!(!users.has_own_password());
}

fn child<'a>(parent: &'a str, role: Role, days: Option<u32>) -> NewTokenSpec<'a> {
    NewTokenSpec { name: "child", user: "olga", role, days, parent: Some(parent) }
}

/// A viewer's token of one day made one that never ended and stayed when the first was deleted.
#[test]
fn a_token_makes_none_that_allows_more_or_lasts_longer_than_itself() {
    let mut users = users();
    let parent = users.add_token(&spec("olga", Role::Viewer), &SECRET, 1000).unwrap();
    let end = 1000 + 86_400;
    let mut add = |spec: &NewTokenSpec<'_>| users.add_token(spec, &[1; SECRET_BYTES], 2000);
    assert_eq!(add(&child(&parent.id, Role::Operator, None)), Err(AccessError::TokenRole));
    for days in [1, 2, 3650] {
        let refused = add(&child(&parent.id, Role::Viewer, Some(days)));
        assert_eq!(refused, Err(AccessError::TokenTooLong { end }));
    }
    let made = add(&child(&parent.id, Role::Viewer, None)).unwrap();
    assert_eq!((made.expires, made.parent), (Some(end), Some(parent.id.clone())));
    let of_another = NewTokenSpec { user: "admin", ..child(&parent.id, Role::Viewer, None) };
    assert_eq!(add(&of_another), Err(AccessError::NoToken(parent.id)));
    assert_eq!(add(&child("none", Role::Viewer, None)), Err(AccessError::NoToken("none".into())));
}

#[test]
fn a_token_ends_with_those_by_which_it_was_made() {
    let mut users = users();
    let root = NewTokenSpec { days: None, ..spec("olga", Role::Viewer) };
    let root = users.add_token(&root, &SECRET, 0).unwrap();
    let mut last = root.id.clone();
    for number in 0..PARENTS_MAX as u8 {
        let made = users.add_token(&child(&last, Role::Viewer, None), &[number; 32], 0).unwrap();
        last = made.id;
    }
    let refused = users.add_token(&child(&last, Role::Viewer, None), &[99; 32], 0);
    assert_eq!(refused, Err(AccessError::TokenDepth));
    assert!(users.identify_token(&[PARENTS_MAX as u8 - 1; 32], u64::MAX).is_some());
    assert!(users.descends(&last, &root.id) && !users.descends(&root.id, &last));
    users.remove_token(&root.id).unwrap();
    assert_eq!(users.tokens().count(), 0);
    assert_eq!(users.identify_token(&[0; 32], 0), None);
}

#[test]
fn a_token_whose_ancestors_are_not_there_or_in_a_circle_is_good_for_nothing() {
    let mut users = users();
    let root = users.add_token(&spec("olga", Role::Viewer), &SECRET, 0).unwrap();
    let made = users.add_token(&child(&root.id, Role::Viewer, None), &[1; 32], 0).unwrap();
    for parent in ["gone", &made.id] {
        let mut users = users.clone();
        users.tokens.get_mut(&root.id).unwrap().parent = Some(parent.to_owned());
        assert_eq!(users.identify_token(&[1; 32], 0), None);
        assert_eq!(users.identify_token(&SECRET, 0), None);
    }
}

/// A viewer could use up all 1,024 tokens, and nobody else could make one.
#[test]
fn no_user_can_use_up_the_tokens_of_others() {
    let mut users = users();
    let secret = |number: usize| {
        let mut secret = SECRET;
        secret[..8].copy_from_slice(&number.to_le_bytes());
        secret
    };
    let mut add =
        |user: &str, role, number| users.add_token(&spec(user, role), &secret(number), 0).map(drop);
    (0..TOKENS_PER_USER_MAX).for_each(|number| add("olga", Role::Viewer, number).unwrap());
    let refused =
        AccessError::TooManyTokensOfUser { user: "olga".into(), max: TOKENS_PER_USER_MAX };
    assert_eq!(add("olga", Role::Viewer, 1000), Err(refused));
    (1000..1000 + TOKENS_PER_ADMIN_MAX).for_each(|number| {
        add("admin", Role::Viewer, number).unwrap();
    });
    assert!(add("admin", Role::Viewer, 5000).is_err());
    // What is over makes room.
    let later = NewTokenSpec { days: None, ..spec("olga", Role::Viewer) };
    users.add_token(&later, &secret(6000), 86_400).unwrap();
    assert_eq!(users.tokens().count(), 1);
    const { assert!(TOKENS_PER_USER_MAX * (USERS_MAX - 1) < TOKENS_MAX - TOKENS_PER_ADMIN_MAX) };
}

/// As a daemon of before the parents of tokens were kept wrote it.
#[test]
fn a_file_of_before_is_read() {
    let digest = hexadecimal(&digest(&SECRET));
    let text = format!(
        r#"{{"users":{{"olga":{{"role":"operator","password":"$argon2id$","must_change_password":false,"created":2}}}},
            "tokens":{{"{}":{{"name":"backup","user":"olga","role":"viewer","created":1,"expires":null,"digest":"{digest}"}}}}}}"#,
        &digest[..16]
    );
    let users: Users = serde_json::from_str(&text).unwrap();
    assert_eq!(users.identify_token(&SECRET, 9).unwrap().role, Role::Viewer);
    assert!(!serde_json::to_string(&users).unwrap().contains("parent"));
}
