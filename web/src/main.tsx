// The page begins here.
import { render } from 'preact';
import { App } from './app';
import { begin } from './data/session';

render(<App />, document.getElementById('root')!);
void begin();
