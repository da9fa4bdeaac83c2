// Written by 'cargo xtask web'.
[
    File {
        path: "/assets/gantry-af59f27f599e35b1.js",
        content_type: "text/javascript; charset=utf-8",
        etag: "W/\"af59f27f599e35b1\"",
        identity: include_bytes!("assets/gantry-af59f27f599e35b1.js"),
        gzip: include_bytes!("assets/gantry-af59f27f599e35b1.js.gz"),
        brotli: include_bytes!("assets/gantry-af59f27f599e35b1.js.br"),
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
        path: "/assets/style-ebe3c7d06772447a.css",
        content_type: "text/css; charset=utf-8",
        etag: "W/\"ebe3c7d06772447a\"",
        identity: include_bytes!("assets/style-ebe3c7d06772447a.css"),
        gzip: include_bytes!("assets/style-ebe3c7d06772447a.css.gz"),
        brotli: include_bytes!("assets/style-ebe3c7d06772447a.css.br"),
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
        etag: "W/\"1e0088a9db2c7dbb\"",
        identity: include_bytes!("index.html"),
        gzip: include_bytes!("index.html.gz"),
        brotli: include_bytes!("index.html.br"),
    },
]
