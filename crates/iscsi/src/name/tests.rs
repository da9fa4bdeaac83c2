use super::*;

#[test]
fn names_are_taken_in_lower_case() {
    for (text, name) in [
        ("iqn.1998-01.com.vmware:esx1", "iqn.1998-01.com.vmware:esx1"),
        ("IQN.1998-01.com.VMware:ESX1-4f5a", "iqn.1998-01.com.vmware:esx1-4f5a"),
        ("iqn.2008-11.org.linux-kvm:web_1", "iqn.2008-11.org.linux-kvm:web_1"),
        ("iqn.2026-01.org.example", "iqn.2026-01.org.example"),
        ("iqn.2026-01.org.example:größe", "iqn.2026-01.org.example:größe"),
        ("EUI.02004567A425678D", "eui.02004567a425678d"),
        ("naa.52004567BA64678D", "naa.52004567ba64678d"),
        ("naa.62004567BA64678D0123456789ABCDEF", "naa.62004567ba64678d0123456789abcdef"),
    ] {
        assert_eq!(fold_name(text).as_deref(), Ok(name));
    }
}

#[test]
fn what_is_no_name_is_refused_with_the_reason() {
    let long = format!("iqn.2026-01.org.example:{}", "x".repeat(200));
    // U+0130 takes two bytes, its lower case three.
    let grows = format!("iqn.2026-01.org.example:{}", "\u{130}".repeat(99));
    for (text, error) in [
        ("", NameError::Length),
        (&long, NameError::Length),
        (&grows, NameError::Length),
        ("esx1", NameError::Type),
        ("iqn", NameError::Type),
        ("é.2026-01", NameError::Type),
        ("host.2026-01.org.example", NameError::Type),
        ("iqn.example", NameError::NamingAuthority),
        ("iqn.2026.org.example", NameError::NamingAuthority),
        ("iqn.2026-1.org.example", NameError::NamingAuthority),
        ("iqn.20x6-01.org.example", NameError::NamingAuthority),
        ("iqn.2026-01.", NameError::NamingAuthority),
        ("iqn.2026-01", NameError::NamingAuthority),
        ("eui.0200", NameError::Eui),
        ("eui.02004567a425678x", NameError::Eui),
        ("naa.5200", NameError::Naa),
        ("naa.62004567ba64678d0123456789abcdeg", NameError::Naa),
        ("iqn.2026-01.org.example:a b", NameError::Character),
        ("iqn.2026-01.org.example:\u{1b}[2J", NameError::Character),
        ("iqn.2026-01.org.example:\u{9b}2J", NameError::Character),
        ("iqn.2026-01.org.example:\u{202e}gro", NameError::Character),
        ("iqn.2026-01.org.example:a\nb", NameError::Character),
        ("iqn.2026-01.org.example:a,i,0x1", NameError::Character),
        ("iqn.2026-01.org.example:\"", NameError::Character),
    ] {
        assert_eq!(fold_name(text), Err(error), "{text:?}");
    }
}
