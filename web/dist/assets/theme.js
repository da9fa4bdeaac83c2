try{let t=localStorage.getItem("gantry-theme");(t==="light"||t==="dark")&&(document.documentElement.dataset.theme=t)}catch{}
