// Written by 'cargo xtask web'.
[
    File {
        path: "/assets/gantry-f8bb1af86ccac592.js",
        content_type: "text/javascript; charset=utf-8",
        etag: "W/\"f8bb1af86ccac592\"",
        identity: include_bytes!("assets/gantry-f8bb1af86ccac592.js"),
        gzip: include_bytes!("assets/gantry-f8bb1af86ccac592.js.gz"),
        brotli: include_bytes!("assets/gantry-f8bb1af86ccac592.js.br"),
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
        path: "/assets/style-f0d6462a689ecb04.css",
        content_type: "text/css; charset=utf-8",
        etag: "W/\"f0d6462a689ecb04\"",
        identity: include_bytes!("assets/style-f0d6462a689ecb04.css"),
        gzip: include_bytes!("assets/style-f0d6462a689ecb04.css.gz"),
        brotli: include_bytes!("assets/style-f0d6462a689ecb04.css.br"),
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
        etag: "W/\"24c2ac1977d1f03c\"",
        identity: include_bytes!("index.html"),
        gzip: include_bytes!("index.html.gz"),
        brotli: include_bytes!("index.html.br"),
    },
]
