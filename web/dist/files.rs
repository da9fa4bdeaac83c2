// Written by 'cargo xtask web'.
[
    File {
        path: "/assets/gantry-963bc8b019d6dca3.js",
        content_type: "text/javascript; charset=utf-8",
        etag: "W/\"963bc8b019d6dca3\"",
        identity: include_bytes!("assets/gantry-963bc8b019d6dca3.js"),
        gzip: include_bytes!("assets/gantry-963bc8b019d6dca3.js.gz"),
        brotli: include_bytes!("assets/gantry-963bc8b019d6dca3.js.br"),
    },
    File {
        path: "/assets/icon-d5864259e84ba517.svg",
        content_type: "image/svg+xml",
        etag: "W/\"d5864259e84ba517\"",
        identity: include_bytes!("assets/icon-d5864259e84ba517.svg"),
        gzip: include_bytes!("assets/icon-d5864259e84ba517.svg.gz"),
        brotli: include_bytes!("assets/icon-d5864259e84ba517.svg.br"),
    },
    File {
        path: "/assets/style-3f250481537a359b.css",
        content_type: "text/css; charset=utf-8",
        etag: "W/\"3f250481537a359b\"",
        identity: include_bytes!("assets/style-3f250481537a359b.css"),
        gzip: include_bytes!("assets/style-3f250481537a359b.css.gz"),
        brotli: include_bytes!("assets/style-3f250481537a359b.css.br"),
    },
    File {
        path: "/assets/theme-d4ce0790d2976056.js",
        content_type: "text/javascript; charset=utf-8",
        etag: "W/\"d4ce0790d2976056\"",
        identity: include_bytes!("assets/theme-d4ce0790d2976056.js"),
        gzip: include_bytes!("assets/theme-d4ce0790d2976056.js.gz"),
        brotli: include_bytes!("assets/theme-d4ce0790d2976056.js.br"),
    },
    File {
        path: "/index.html",
        content_type: "text/html; charset=utf-8",
        etag: "W/\"d9c2fc75a9802766\"",
        identity: include_bytes!("index.html"),
        gzip: include_bytes!("index.html.gz"),
        brotli: include_bytes!("index.html.br"),
    },
]
