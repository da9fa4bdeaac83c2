// Runs before the page is painted, so that a chosen theme does not flash the other one first.
export {};

try {
  const chosen = localStorage.getItem('gantry-theme');
  if (chosen === 'light' || chosen === 'dark') document.documentElement.dataset.theme = chosen;
} catch {
  // Without storage the system's theme is used.
}
