// Written by 'cargo xtask web'.
[
    File {
        path: "/assets/gantry-4e1bf78e6d48922a.js",
        content_type: "text/javascript; charset=utf-8",
        etag: "W/\"4e1bf78e6d48922a\"",
        identity: include_bytes!("assets/gantry-4e1bf78e6d48922a.js"),
        gzip: include_bytes!("assets/gantry-4e1bf78e6d48922a.js.gz"),
        brotli: include_bytes!("assets/gantry-4e1bf78e6d48922a.js.br"),
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
        path: "/assets/style-5aa495c9153b9459.css",
        content_type: "text/css; charset=utf-8",
        etag: "W/\"5aa495c9153b9459\"",
        identity: include_bytes!("assets/style-5aa495c9153b9459.css"),
        gzip: include_bytes!("assets/style-5aa495c9153b9459.css.gz"),
        brotli: include_bytes!("assets/style-5aa495c9153b9459.css.br"),
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
        etag: "W/\"6ba9c2e3ec8e025c\"",
        identity: include_bytes!("index.html"),
        gzip: include_bytes!("index.html.gz"),
        brotli: include_bytes!("index.html.br"),
    },
]
