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
    NewTokenSpec { name: "backup", user, role, days: Some(1) }
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
