//! HTTP connection loop: accept, TLS handshake, requests, each with a deadline.

use std::future::Future;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{ConnectInfo, Request};
use axum::response::Response;
use bytes::Bytes;
use hyper::body::{Body as HttpBody, Frame, Incoming, SizeHint};
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, UnixListener};
use tokio::time::{Instant, Sleep, sleep, timeout};
use tokio_rustls::TlsAcceptor;

use super::doors::{Closed, Doors, Place, Work};
use super::peer::Peer;
use crate::limits::{
    ACCEPT_PAUSE, BODY_LASTS_MAX, BODY_PATIENCE, HTTP_BUFFER_BYTES_MAX, REFUSAL_LOG_INTERVAL,
};

/// State shared by all connections.
#[derive(Clone)]
pub(super) struct Serving {
    pub(super) router: Router,
    pub(super) doors: Arc<Doors>,
    /// For a handshake, for the head of a request, and for silence between requests.
    pub(super) patience: Duration,
}

/// Accept loop for TCP, encrypted or not; never ends.
pub(super) async fn serve_tcp(listener: TcpListener, tls: Option<TlsAcceptor>, serving: Serving) {
    let mut complaints = Complaints::default();
    loop {
        let (stream, address) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                complaints.rest(&serving.doors, &error).await;
                continue;
            }
        };
        let Some(place) = serving.doors.enter(address.ip()) else { continue };
        let (serving, tls) = (serving.clone(), tls.clone());
        tokio::spawn(async move {
            match tls {
                None => serving.requests(stream, Peer::Plain(address), place).await,
                Some(tls) => {
                    let handshake = timeout(serving.patience, tls.accept(stream));
                    let handshake = tokio::select! {
                        done = handshake => done,
                        () = place.lost() => return,
                    };
                    match handshake {
                        Ok(Ok(stream)) => {
                            serving.requests(stream, Peer::Tls(address), place).await;
                        }
                        Ok(Err(error)) => tracing::debug!(%address, %error, "no TLS handshake"),
                        Err(_) => serving.doors.count(Closed::Timeout),
                    }
                }
            }
        });
    }
}

/// Accept loop for the daemon's Unix socket; never ends. Its places are its own: nobody over TCP
/// takes them.
pub(super) async fn serve_unix(listener: UnixListener, serving: Serving) {
    let mut complaints = Complaints::default();
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let Some(place) = serving.doors.enter(IpAddr::V4(Ipv4Addr::LOCALHOST)) else {
                    continue;
                };
                let serving = serving.clone();
                tokio::spawn(async move {
                    serving.requests(stream, Peer::Socket, place).await;
                });
            }
            Err(error) => complaints.rest(&serving.doors, &error).await,
        }
    }
}

impl Serving {
    async fn requests<S>(self, stream: S, peer: Peer, place: Place)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let place = Arc::new(place);
        let router = TowerToHyperService::new(self.router);
        let of_requests = Arc::clone(&place);
        let service = service_fn(move |request: hyper::Request<Incoming>| {
            let work = of_requests.work();
            let mut request: Request = request.map(|body| Body::new(Arriving::new(body)));
            request.extensions_mut().insert(ConnectInfo(peer));
            let answered = router.call(request);
            async move {
                let response: Response = answered.await?;
                let leaving = response.map(|body| Body::new(Leaving { body, _work: work }));
                Ok::<_, std::convert::Infallible>(leaving)
            }
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(self.patience)
            .max_buf_size(HTTP_BUFFER_BYTES_MAX)
            .serve_connection(TokioIo::new(Patient::new(stream, BODY_PATIENCE)), service);
        let ended = tokio::select! {
            ended = connection => ended,
            () = place.lost() => return,
        };
        if ended.is_err_and(|error| error.is_timeout()) {
            self.doors.count(Closed::Timeout);
        }
    }
}

/// The log lines about connections that the system cannot give: one in a while.
#[derive(Default)]
struct Complaints {
    last: Option<Instant>,
}

impl Complaints {
    /// Counts an error of accept and waits until it is worth another try: what waits in the queue
    /// of the socket is still there then.
    async fn rest(&mut self, doors: &Doors, error: &io::Error) {
        doors.count(Closed::Accept);
        if self.last.is_none_or(|last| last.elapsed() >= REFUSAL_LOG_INTERVAL) {
            self.last = Some(Instant::now());
            tracing::warn!(%error, "connections to the management interface cannot be accepted");
        }
        sleep(ACCEPT_PAUSE).await;
    }
}

/// The body of a request, which has to come with some speed.
struct Arriving {
    body: Incoming,
    /// The next part must be there by then.
    next: Pin<Box<Sleep>>,
    /// All of it must be there by then.
    whole: Instant,
}

impl Arriving {
    fn new(body: Incoming) -> Self {
        let whole = Instant::now() + BODY_LASTS_MAX;
        Self { body, next: Box::pin(sleep(BODY_PATIENCE)), whole }
    }
}

impl HttpBody for Arriving {
    type Data = Bytes;
    type Error = axum::BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let this = &mut *self;
        if let Poll::Ready(frame) = Pin::new(&mut this.body).poll_frame(context) {
            let next = (Instant::now() + BODY_PATIENCE).min(this.whole);
            this.next.as_mut().reset(next);
            return Poll::Ready(frame.map(|frame| frame.map_err(Into::into)));
        }
        ready!(this.next.as_mut().poll(context));
        Poll::Ready(Some(Err("the body came too slowly".into())))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The body of an answer: until it is sent its connection is not idle.
struct Leaving {
    body: Body,
    _work: Work,
}

impl HttpBody for Leaving {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A stream whose other end has to take what is written to it.
struct Patient<S> {
    stream: S,
    patience: Duration,
    /// Set while it takes nothing.
    deadline: Option<Pin<Box<Sleep>>>,
}

impl<S> Patient<S> {
    fn new(stream: S, patience: Duration) -> Self {
        Self { stream, patience, deadline: None }
    }

    /// Passes the result of a write on; an error if the write waits for too long.
    fn watch<T>(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.deadline = None;
            return written;
        }
        let deadline = self.deadline.get_or_insert_with(|| Box::pin(sleep(self.patience)));
        ready!(deadline.as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Patient<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Patient<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.watch(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, pieces);
        self.watch(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        self.watch(context, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shut = Pin::new(&mut self.stream).poll_shutdown(context);
        self.watch(context, shut)
    }
}
